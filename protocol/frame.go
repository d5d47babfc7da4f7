package protocol

import (
	"fmt"
	"strconv"
)

// FrameType is the first element of a frame.
type FrameType uint64

// The frames. Numbers are never reused.
const (
	TypeHello     FrameType = 1
	TypeWelcome   FrameType = 2
	TypeDrain     FrameType = 3
	TypeFail      FrameType = 4
	TypeDone      FrameType = 5
	TypeSuccessor FrameType = 6
	TypePing      FrameType = 7

	TypeGetFence   FrameType = 8
	TypeFenceState FrameType = 9
	TypeSetFence   FrameType = 10

	TypeJoin       FrameType = 12
	TypeGetJoined  FrameType = 13
	TypeJoinedPage FrameType = 14

	TypeGetInbox   FrameType = 16
	TypeInboxPage  FrameType = 17
	TypeClearInbox FrameType = 18

	TypeGetInfo    FrameType = 20
	TypeInfoState  FrameType = 21
	TypeGetNodes   FrameType = 22
	TypeNodesPage  FrameType = 23
	TypeGetTopics  FrameType = 24
	TypeTopicsPage FrameType = 25

	TypeOpenLane FrameType = 32
	TypePublish  FrameType = 33
	TypeAcks     FrameType = 34
	TypeRefuse   FrameType = 35

	TypeSubscribe  FrameType = 48
	TypeSubscribed FrameType = 49
	TypeDeliver    FrameType = 50
	TypeCaughtUp   FrameType = 51
	TypeGap        FrameType = 52

	TypeCreateToken FrameType = 64
	TypeGetTokens   FrameType = 65
	TypeTokensPage  FrameType = 66
	TypeRevokeToken FrameType = 67
	TypeSetKey      FrameType = 68
	TypeGetKeys     FrameType = 69
	TypeKeysPage    FrameType = 70
	TypeForgetNode  FrameType = 71
	TypePurgeTopic  FrameType = 72
	TypeDeleteTopic FrameType = 73
)

var typeNames = [...]string{
	TypeHello:       "Hello",
	TypeWelcome:     "Welcome",
	TypeDrain:       "Drain",
	TypeFail:        "Fail",
	TypeDone:        "Done",
	TypeSuccessor:   "Successor",
	TypePing:        "Ping",
	TypeGetFence:    "GetFence",
	TypeFenceState:  "FenceState",
	TypeSetFence:    "SetFence",
	TypeJoin:        "Join",
	TypeGetJoined:   "GetJoined",
	TypeJoinedPage:  "JoinedPage",
	TypeGetInbox:    "GetInbox",
	TypeInboxPage:   "InboxPage",
	TypeClearInbox:  "ClearInbox",
	TypeGetInfo:     "GetInfo",
	TypeInfoState:   "InfoState",
	TypeGetNodes:    "GetNodes",
	TypeNodesPage:   "NodesPage",
	TypeGetTopics:   "GetTopics",
	TypeTopicsPage:  "TopicsPage",
	TypeOpenLane:    "OpenLane",
	TypePublish:     "Publish",
	TypeAcks:        "Acks",
	TypeRefuse:      "Refuse",
	TypeSubscribe:   "Subscribe",
	TypeSubscribed:  "Subscribed",
	TypeDeliver:     "Deliver",
	TypeCaughtUp:    "CaughtUp",
	TypeGap:         "Gap",
	TypeCreateToken: "CreateToken",
	TypeGetTokens:   "GetTokens",
	TypeTokensPage:  "TokensPage",
	TypeRevokeToken: "RevokeToken",
	TypeSetKey:      "SetKey",
	TypeGetKeys:     "GetKeys",
	TypeKeysPage:    "KeysPage",
	TypeForgetNode:  "ForgetNode",
	TypePurgeTopic:  "PurgeTopic",
	TypeDeleteTopic: "DeleteTopic",
}

// String is the name of the frame, or "frame N" where this version has none.
func (t FrameType) String() string {
	if t < FrameType(len(typeNames)) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "frame " + strconv.FormatUint(uint64(t), 10)
}

// Frame is one message of the protocol between the two sides.
type Frame interface {
	// Type is the frame's number.
	Type() FrameType

	// Append appends the frame's one encoding, without the length before it. It
	// only reads the frame: several goroutines may append one at once.
	Append(b []byte) []byte
}

// newFrame makes an empty frame of a type; nil for a type this version does not know.
func newFrame(t FrameType) Frame {
	switch t {
	case TypeHello:
		return new(Hello)
	case TypeWelcome:
		return new(Welcome)
	case TypeDrain:
		return new(Drain)
	case TypeFail:
		return new(Fail)
	case TypeDone:
		return new(Done)
	case TypeSuccessor:
		return new(Successor)
	case TypePing:
		return new(Ping)
	case TypeGetFence:
		return new(GetFence)
	case TypeFenceState:
		return new(FenceState)
	case TypeSetFence:
		return new(SetFence)
	case TypeJoin:
		return new(Join)
	case TypeGetJoined:
		return new(GetJoined)
	case TypeJoinedPage:
		return new(JoinedPage)
	case TypeGetInbox:
		return new(GetInbox)
	case TypeInboxPage:
		return new(InboxPage)
	case TypeClearInbox:
		return new(ClearInbox)
	case TypeGetInfo:
		return new(GetInfo)
	case TypeInfoState:
		return new(InfoState)
	case TypeGetNodes:
		return new(GetNodes)
	case TypeNodesPage:
		return new(NodesPage)
	case TypeGetTopics:
		return new(GetTopics)
	case TypeTopicsPage:
		return new(TopicsPage)
	case TypeOpenLane:
		return new(OpenLane)
	case TypePublish:
		return new(Publish)
	case TypeAcks:
		return new(Acks)
	case TypeRefuse:
		return new(Refuse)
	case TypeSubscribe:
		return new(Subscribe)
	case TypeSubscribed:
		return new(Subscribed)
	case TypeDeliver:
		return new(Deliver)
	case TypeCaughtUp:
		return new(CaughtUp)
	case TypeGap:
		return new(Gap)
	case TypeCreateToken:
		return new(CreateToken)
	case TypeGetTokens:
		return new(GetTokens)
	case TypeTokensPage:
		return new(TokensPage)
	case TypeRevokeToken:
		return new(RevokeToken)
	case TypeSetKey:
		return new(SetKey)
	case TypeGetKeys:
		return new(GetKeys)
	case TypeKeysPage:
		return new(KeysPage)
	case TypeForgetNode:
		return new(ForgetNode)
	case TypePurgeTopic:
		return new(PurgeTopic)
	case TypeDeleteTopic:
		return new(DeleteTopic)
	}
	return nil
}

// Parse reads the body of any frame. The error is ErrMalformed, also for a type
// it does not know. Publish and Deliver alias b; all others own what they hold.
func Parse(b []byte) (Frame, error) {
	t, err := PeekType(b)
	if err != nil {
		return nil, err
	}
	f := newFrame(t)
	switch f := f.(type) {
	case nil:
		return nil, Errorf(ErrMalformed, "unknown %v", t)
	case listed:
		err = parseFrame(b, f)
	case interface{ Parse(b []byte) error }:
		err = f.Parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("parse %v: %w", t, err)
	}
	return f, nil
}

// PeekType reads the type of a frame without checking the rest of it.
func PeekType(b []byte) (FrameType, error) {
	n, size, k := readHead(b)
	if k != kindArray || n == 0 {
		return 0, malformed("no array with a type", 0)
	}
	t, _, k := readHead(b[size:])
	if k != kindUint {
		return 0, malformed("the type is no number", size)
	}
	return FrameType(t), nil
}

// checkID is for requests: an answer with ID 0 would concern the channel.
func checkID(id uint64) error {
	if id == 0 {
		return Errorf(ErrInvalid, "a request has an id above 0")
	}
	return nil
}
