// Package protocol is the wire contract of pilotgo: frames, their one encoding,
// names, limits and errors. It starts no goroutine, reads no clock and opens no
// socket.
//
// What follows is the specification, complete enough to write a client in
// another language. The files in testdata/vectors are its examples: hex with a
// meaning, for every frame and every kind of malformed one. Numbers of frames,
// elements and errors are never reused.
//
// # Words
//
// A registry keeps one log of messages. A message lies on a topic, or is direct:
// to one node and on no topic. Its seq is its place in the log, strictly rising,
// with gaps. Its time is the registry's: nanoseconds since 1970 UTC, never below
// the one before. An epoch names one incarnation of a log: a log that lost
// acknowledged messages, was restored or imported has a new one. Seqs of
// different epochs have nothing to do with each other.
//
// A node is one Ed25519 key. Its id is 2^31 plus the first 31 bits of the SHA-256
// of the 32 bytes of the public key, read as a big-endian number; lower ids belong
// to the Pilot network and come in only through a Pilot listener. An id is written in
// decimal, or as Pilot's address "0:0000.HHHH.LLLL" with its high and low 16 bits
// in four upper-case hex digits each; both are read, hex in either case. A
// registry binds an id to the first key that has it. An instance is 128 random
// bits made by each client process at its start.
//
// The fingerprint of a key is "sha256:" and the SHA-256 of the public key in
// base64url (RFC 4648 section 5) without padding. An epoch is written as 16 hex
// digits, an instance as 32.
//
// # Channels
//
// A session is one connection between a client and a registry, made of channels.
// A channel is an ordered, flow-controlled row of frames in both directions;
// none waits for another. The client opens every channel, and its first frame
// tells what it is:
//
//	Hello      the control channel: the first of a session, the only one of its kind
//	OpenLane   publishes of one lane; at most one channel for each lane
//	Subscribe  one subscription
//
// The client opens no other channel before it has the Welcome. A frame that is
// out of place is malformed: another first frame, a second Hello, an answer
// from the client, a type that the receiver does not know.
//
// Over QUIC (RFC 9000) the ALPN is "pilot-registry/1" and a channel is a
// bidirectional stream. Both sides show a self-made certificate with an Ed25519
// key in TLS 1.3; names, dates and signatures in it mean nothing, the key that
// the handshake proved is all that counts. A session may be resumed by ticket,
// but nothing is sent as early data: a replayed first flight would execute a
// publish again. Package internal/link has the carriers.
//
// # Framing
//
// Before each frame stands its length: a big-endian uint32 that counts the bytes
// of the MessagePack array behind it. A length of 0 is malformed; one above the
// maximum is too large, and is refused before memory is taken for it. A channel
// that ends inside a frame is malformed.
//
// # The one form
//
// A frame is one MessagePack array whose first element is its type. Only one
// encoding of each value is accepted, and anything else is malformed:
//
//	integers     the shortest of: fixint, uint 8 to 64; below 0 fixint, int 8 to 64
//	booleans     true and false (no frame has one yet)
//	text         str, its length in the shortest of: fixstr, str 8, 16, 32
//	bytes        bin, its length in the shortest of: bin 8, 16, 32
//	arrays       their length in the shortest of: fixarray, array 16, 32
//
// There is no nil, float, map, ext or timestamp. Arrays nest at most 8 deep, the
// frame itself counting as one. Nothing follows the array. A length or count that
// the bytes at hand cannot cover is malformed, whatever follows later.
//
// Text need not be UTF-8 for a frame to be well-formed: an invalid topic is
// refused by name (see Topics) and does not end a channel.
//
// In the tables below the kind of an element is one of these:
//
//	uint     an integer of 0 to 2^64-1
//	node     a uint of 0 to 2^32-1: a node id
//	ms       a uint of 0 to 9223372036854: milliseconds
//	flag     a uint that is 0 or 1
//	text     a str
//	bytes    a bin; with a number, of exactly that length
//	NAME     an array that is the record NAME
//	[]KIND   an array of any number of these
//
// An element of another kind, and an array with fewer elements than its table,
// are malformed.
//
// # Versions
//
// Hello tells the range of versions that the client speaks, Welcome the one the
// registry chose: the highest in common. Where there is none the registry answers
// Fail with ErrVersion. This is version 1. Features are bits; both sides use only
// those that both named, and ignore bits they do not know. Version 1 has none.
//
// Later versions may add elements at the end of frames and of the records message,
// node entry, topic entry, token entry and key entry. A receiver keeps or ignores elements beyond those it knows;
// what relays a frame passes them on as they came. All other records have
// exactly the elements of their table. New frame types and new bits of
// publish flags are sent only to a side that named the version or feature.
//
// # Session
//
// The client sends Hello and waits for the answer, Welcome or Fail. The first
// frame of every channel is at most 64 KiB, and so is the answer to Hello; all
// others the largest payload that Welcome tells plus 64 KiB, and the pages of
// lists the size of a page more. A client gives up when an answer (to Hello,
// Subscribe or a request) takes longer than 5 seconds; a publish waits as long as
// its caller does. A client that is done closes the connection with code 0. A new
// session of an instance ends the one before: what a client gave up there must
// not enter the log behind what it sends here.
//
//	1 Hello          client, opens the control channel
//	    min version    uint       the oldest version the client speaks
//	    max version    uint       the newest
//	    features       uint       bits
//	    instance       bytes 16   of the client process; all zero = not told
//	    name           text       a host name to show; may be empty
//	    tags           []text     labels that the client gives itself
//	    token          bytes      join token, empty where none is needed
//
//	2 Welcome        registry, control
//	    version        uint       the one to speak
//	    features       uint       bits
//	    epoch          epoch      of the log
//	    node           node       the client's id, made from the key it proved
//	    head           uint       the highest seq in the log
//	    now            uint       registry time
//	    limits         limits     for this session
//	    software       text       name and version of the registry, to show
//
//	epoch
//	    id             uint       never 0
//	    born           uint       the registry's clock at the log's birth, unix seconds
//
//	limits
//	    payload        uint       bytes of one payload, 1 to 16 MiB
//	    in flight      uint       publishes of one lane without an answer, from 1
//	    subscriptions  uint       open at once
//	    page           uint       bytes of one page of a list, about; up to 16 MiB
//
//	3 Drain          registry, control
//	    retry after    ms         come back after this, plus jitter
//	    reason         text       to show
//
//	4 Fail           registry, any channel
//	    id             uint       of the request it refuses; 0 = the channel
//	    code           uint       see Errors
//	    retry after    ms         when trying again makes sense; 0 = not told
//	    detail         text       to show
//
//	5 Done           registry, control
//	    id             uint       of a request that has nothing else to answer
//
//	6 Successor      registry, control
//	    old            bytes 32   the key of this registry
//	    new            bytes 32   the key that will follow it
//	    signature      bytes 64   see Keys of a registry
//
//	7 Ping           client, control: Done
//	    id             uint
//	    pad            bytes      up to 32 bytes of no meaning
//
// Ping is for a session on which nothing else is asked: without an answer within
// 5 seconds it is dead. Padded to 32 bytes it also lets a registry that restarted
// say at once that it does not know the session, which the small packets that
// keep a QUIC connection open do not.
//
// After Drain the registry takes no new publishes on the session, answering them
// with ErrDraining; it answers those it has and closes the connection with that
// code. A client moves when it sees Drain, without waiting for the end.
//
// # Keys of a registry
//
// A registry has one key for each log. Clients pin it, by the host as they
// address it: from a flag, a configuration or a join token, or from the first
// session. They check it in every handshake, resumed ones too. Another key than
// the pinned one is ErrWrongKey, unless statements of succession lead from the
// pinned key to it. A statement is old key, new key and signature, 128 bytes: the
// old key's Ed25519 signature over
//
//	"pilot-registry successor 1" 00 OLD NEW
//
// (26 bytes of ASCII, a zero byte, two keys of 32). A registry shows its history
// in its certificate, in the extension 2.25.1735423318.874002861.1093741587 whose
// value is up to 32 statements with nothing between them, and announces the next
// key to open sessions with Successor. Statements may come in any order.
//
// # Join tokens
//
// A registry that does not know a key may admit it by a join token, which Hello
// carries as its text. The text is "pjt1_" and, in base64url without padding, 60
// bytes:
//
//	32  SHA-256 of the registry's public key
//	 8  the token's id, which is no secret
//	16  its secret, random
//	 4  the first bytes of the SHA-256 of the 56 before
//
// A client that is given such a token pins the registry's key by it for the
// dial, so that the secret goes to no other registry. The registry keeps of the
// secret only the SHA-256 over
//
//	"pilot-registry token 1" 00 ID SECRET
//
// (22 bytes of ASCII, a zero byte, 8 and 16 bytes). Once it has let a key in by a
// token it knows the key, and looks at no token of it again: that the token was
// used up or has expired since keeps nobody out. Any other text in Hello is for
// registries with rules of their own.
//
// # Topics
//
// A topic is 1 to 1024 bytes of UTF-8 without control characters (U+0000 to
// U+001F, U+007F to U+009F) and without '*', and does not begin with '$', which
// is reserved. Topics are compared byte by byte; nothing is normalised. ':' and
// '.' separate levels. A pattern is a topic, which matches itself; or "*" alone,
// which matches every topic; or a prefix of at least one byte followed by ".*" or
// ":*", which matches topics that begin with the prefix and its separator and have at least one more
// byte. Anything else with '*' is ErrInvalidPattern. A receiver that meets a
// message with an invalid topic skips and counts it.
//
// # Publishing
//
// A lane is ordered in itself: its publishes enter the log in the order in which
// they stand on the channel. Heartbeats take the urgent lane, so that they never
// wait behind bulk. The client has at most as many publishes without an answer
// on a lane as Welcome allows; the registry stops reading a lane that has more.
//
//	32 OpenLane      client, opens a channel
//	    lane           uint          0 normal, 1 urgent
//
//	33 Publish       client, lane
//	    n              uint          a number of the client's choice, for the answer
//	    flags          uint          bits: 1 resend, 2 join the topic when accepted
//	    key            bytes         idempotency key, 1 to 32 bytes
//	    epoch          uint          of the log, and
//	    head           uint          its head, as known when the key was made
//	    topic          text          empty for a direct message
//	    payload        bytes         opaque; may be empty
//	    slot           bytes         replace slot, up to 32 bytes; empty = none
//	    to             node          recipient of a direct message; 0 on a topic
//	    origin         node          whose message this is; 0 = the sender's own
//	    conditions     []condition   at most 2, on different topics
//
//	condition
//	    topic          text          of the fence
//	    epoch          uint          the epoch in which term is a term
//	    term           uint          1 to 2^53-1
//	    has expect     flag          whether expect is tested
//	    expect         uint          the S that was read; 0 without has expect
//	    raise          uint          0, or the fence's new K: term to 2^53-1
//
//	34 Acks          registry, lane
//	    acks           []ack         in any order
//
//	ack
//	    n              uint          of the publish
//	    seq            uint          of the message
//	    time           uint          of the message
//	    duplicate      flag          1 = it was in the log before this publish
//
//	35 Refuse        registry, lane
//	    n              uint          of the publish
//	    code           uint          see Errors
//	    retry after    ms            when trying again makes sense; 0 = not told
//	    topic          text          of the condition that refused, else empty
//	    epoch          uint          of the log, when a condition refused
//	    k              uint          the fence that refused
//	    s              uint
//	    detail         text          to show
//
// Each publish has one answer. An ack means that the message is in the log, as
// durable as that log is. A refusal means that it is not, ErrUnknownOutcome apart,
// and does not hold up the publishes behind.
//
// A publish has a topic or a recipient, not both; a direct message has no slot,
// and its join flag means nothing. Origin needs the right to relay. A slot makes
// the message take the place of the sender's previous one with the same topic and
// slot.
//
// The key belongs to the sender, over all its sessions and instances. Clients use
// their instance and a counter: a process that counted from 1 again under one
// name would have its messages taken for those of its predecessor. The registry
// remembers every key since a floor in its log that it knows. A client that
// lost its session before the answer sends the publish again on the next, in
// the old order, with the resend flag, and with everything else unchanged: the
// key, its epoch and head, and the epochs in the conditions. Then, in this order:
//
//   - A key that is known, for the same topic, recipient and payload, is
//     acknowledged with the seq and time it has, as a duplicate. Conditions are
//     not tested again.
//   - A key that is known for something else is ErrKeyReused.
//   - A resend whose key is not known, and whose epoch is not the log's or whose
//     head is below the floor, is ErrUnknownOutcome: the message may have been in
//     the log.
//   - Otherwise the conditions are tested and the message is appended.
//
// # Fences
//
// Each topic has a fence (K, S) in each epoch. K is its value, 0 while unset. S is
// the seq of the last message on the topic itself that passed the topic's own
// fence. Fences are kept apart from messages and do not fall to retention. A
// publish may name conditions; they are tested in order, each by these rules, and
// the first that fails refuses the publish, telling the fence:
//
//	epoch is not the log's                      ErrWrongEpoch
//	term < K                                    ErrStaleTerm
//	term > K without raise                      ErrStaleTerm
//	raise without expect, and raise <= K        ErrStaleTerm
//	has expect, and expect is not S             ErrConflict
//
// When all hold, then in one step the message is appended, each K becomes the
// higher of K and raise, and the S of the message's own topic, where one of the
// conditions is on it, becomes the message's seq. A direct message moves no S.
// Raising needs the right to publish on the fence's topic. The message is
// delivered with a mark for each condition; a mark on the message's own topic
// makes it stamped.
//
// A fence told in a refusal, in CaughtUp or FenceState was told, not read: read
// the topic up to S before deciding anew. The registry reads no payload for any
// of this.
//
// # Subscriptions
//
//	48 Subscribe     client, opens a channel
//	    source         uint       0 pattern, 1 the node's inbox
//	    pattern        text       empty with source 1
//	    start          uint       0 new, 1 last, 2 all, 3 after, 4 since
//	    since          uint       registry time, with start 4
//	    after          uint       seq: with start 3 where to begin; see resume
//	    epoch          uint       the epoch of after; 0 = a new subscription
//
//	49 Subscribed    registry, subscription
//	    epoch          uint       of the log
//	    born           uint       of the epoch
//	    position       uint       what follows has a higher seq
//	    narrowed       flag       1 = matching topics are left out that this node may not read
//
//	50 Deliver       registry, subscription: the elements of message
//	    seq            uint       of the message
//	    time           uint       of the message
//	    sender         node       what the sender's handshake proved
//	    origin         node       named by a relay; 0 = none
//	    to             node       recipient of a direct message; 0 on a topic
//	    topic          text       empty on a direct message
//	    payload        bytes      as published
//	    key            bytes      to the sender itself its idempotency key, else empty
//	    marks          []mark     the conditions it passed, in the sender's order
//
//	message
//	    seq            uint       these are the elements
//	    time           uint       of Deliver
//	    sender         node
//	    origin         node
//	    to             node
//	    topic          text
//	    payload        bytes
//	    key            bytes
//	    marks          []mark
//
//	mark
//	    topic          text       of the fence
//	    term           uint       under which the message passed
//
//	51 CaughtUp      registry, subscription
//	    seq            uint       the log was scanned up to here
//	    k              uint       the fence of the pattern's topic;
//	    s              uint       0 where the pattern is no topic
//
//	52 Gap           registry, subscription
//	    from           uint       the first and
//	    to             uint       the last seq of the range
//
// The registry answers Subscribed, or Fail with id 0. Then it delivers the
// messages of the subscription in log order, each at most once, as soon as they
// are in the log: own messages too, and nothing that is not in the log. A pattern
// never matches direct messages; an inbox has them, and the messages of every
// topic that the node has joined.
//
// The starts: only what comes from now on; the newest message of each topic, all
// that is retained, all retained behind the seq after, all retained with a time
// of at least since; and then what comes. Behind the retained part, also when it
// is empty, stands one CaughtUp: what came before it is history.
//
// A client resumes a subscription on a new session by sending it again with epoch
// set to that of its last Subscribed, and after to the highest seq it knows to be
// scanned, of Subscribed, Deliver or CaughtUp: what is kept of the range of a Gap
// comes behind the Gap. The registry goes on behind after, and another CaughtUp
// follows. Up to that, starts 1 and 4 leave out what they always do, so a client
// that has caught up once resumes with start 3. An after above the log's head is
// ErrInvalid. If epoch is not the log's, after means nothing: the registry begins
// at the start of its log, Subscribed tells the new epoch, and all that is known
// of the old one is void.
//
// Gap: messages of this subscription with a seq in the range, both ends
// included, may have left the log before they could be delivered. Those still
// kept follow in order. A message that was replaced in its slot while a reader
// was behind is skipped without a gap.
//
// The registry reads the log at each reader's pace: a client that stops reading
// holds up only its own subscription. The client sends nothing behind Subscribe;
// to end a subscription, it ends or resets the channel.
//
// Rules may change while a subscription is open. Then a topic that the node may
// not read any more ends its subscription with Fail and ErrDenied; from a pattern
// or an inbox that topic is left out from then on, without another Subscribed.
//
// # Requests
//
// Requests go from the client on the control channel, each with an id of the
// client's choice above 0; the answer has the same id. A request with id 0, which
// no answer could name, ends the session with ErrInvalid. Answers may come in
// another order than the requests. The answer is the frame named, or Fail. Lists
// come in pages: next is what to ask after for the following page, and is 0 or
// empty on the last one. A limit of 0 is as many as fit a page.
//
//	8 GetFence       client, control: FenceState
//	    id             uint
//	    topic          text
//
//	9 FenceState     registry, control
//	    id             uint
//	    topic          text
//	    epoch          uint       of the log
//	    k              uint
//	    s              uint
//
//	10 SetFence      client, control: FenceState; for operators
//	    id             uint
//	    topic          text
//	    epoch          uint       must be the log's, else ErrWrongEpoch
//	    k              uint       0 to 2^53-1; S stays
//
//	12 Join          client, control: Done
//	    id             uint
//	    topics         []text     at most 256
//	    leave          flag       0 join, 1 leave
//
//	13 GetJoined     client, control: JoinedPage, in byte order
//	    id             uint
//	    after          text       empty = from the first
//	    limit          uint
//
//	14 JoinedPage    registry, control
//	    id             uint
//	    next           text
//	    topics         []text
//
//	16 GetInbox      client, control: InboxPage, in log order
//	    id             uint
//	    after          uint       from behind this seq
//	    limit          uint       how many of the newest to look at; 0 = 10,000
//	    topic          text       only this one; empty = all, and direct messages
//	    all            flag       1 = also what was cleared
//
//	17 InboxPage     registry, control
//	    id             uint
//	    next           uint
//	    truncated      flag       1 = older retained messages were left out
//	    head           uint       of the log when the page was made
//	    messages       []message
//
//	18 ClearInbox    client, control: Done
//	    id             uint
//	    up to          uint       seq
//
//	20 GetInfo       client, control: InfoState
//	    id             uint
//
//	21 InfoState     registry, control
//	    id             uint
//	    epoch          uint       of the log
//	    born           uint       of the epoch
//	    head           uint       of the log
//	    now            uint       registry time
//	    started        uint       time: when this registry process started
//	    nodes          uint       known
//	    online         uint       nodes with a session
//	    sessions       uint
//	    subscriptions  uint
//	    topics         uint       with retained messages
//	    messages       uint       retained
//	    bytes          uint       of payload, retained
//	    published      uint       accepted since the start
//	    software       text       to show
//
//	22 GetNodes      client, control: NodesPage, by rising id
//	    id             uint
//	    after          node       0 = from the first
//	    limit          uint
//	    topic          text       only nodes that joined it; empty = all
//
//	23 NodesPage     registry, control
//	    id             uint
//	    next           node
//	    nodes          []node entry
//
//	node entry
//	    id             node
//	    key            bytes      public key
//	    name           text       as in its last Hello
//	    tags           []text
//	    online         uint       sessions at the moment
//	    last seen      uint       time: when a session last began or ended; renewed while one is there
//
//	24 GetTopics     client, control: TopicsPage, in byte order
//	    id             uint
//	    after          text       empty = from the first
//	    limit          uint
//	    pattern        text       empty = all
//
//	25 TopicsPage    registry, control
//	    id             uint
//	    next           text
//	    topics         []topic entry
//
//	topic entry
//	    name           text
//	    messages       uint       retained
//	    bytes          uint       of payload, retained
//	    last           uint       seq of the newest; 0 = none
//	    k              uint       the fence
//	    s              uint
//
// The inbox is what is retained of every topic that the node has joined, by Join,
// by the flag of a publish or by an earlier session, and the direct messages to
// it. A listing begins behind after, and behind the cursor that ClearInbox moves
// unless all is set; it looks at the newest limit messages, and at least at each
// topic's newest 100, and says truncated when older ones were left out. Who joins
// config:NAME joins config:status:NAME, too. Joins belong to the epoch: after a
// new one the client joins again.
//
// # Operators
//
// These requests, and SetFence, need the right of an operator: for the topic that
// they name, or else for the registry itself. Each may be sent again: what has
// been done is not done twice. A hash is the SHA-256 of a public key, and labels
// are 1 to 64 letters, digits, '-', '_' and '.' of ASCII, which access rules name.
//
//	64 CreateToken   client, control: TokensPage with the one token
//	    id             uint
//	    token          bytes 8    its id, random
//	    hash           bytes 32   of its secret, see Join tokens
//	    uses           uint       keys that it lets in; 0 = any number
//	    lifetime       ms         from now on; 0 = for ever
//	    labels         []text     of the keys that it lets in; at most 16
//	    note           text       for operators; up to 255 bytes
//
//	65 GetTokens     client, control: TokensPage, by rising id
//	    id             uint
//	    after          bytes      empty = from the first
//	    limit          uint
//
//	66 TokensPage    registry, control
//	    id             uint
//	    next           bytes
//	    tokens         []token entry
//
//	token entry
//	    id             bytes 8
//	    created        uint       registry time
//	    expires        uint       registry time; 0 = never
//	    uses           uint       0 = any number
//	    used           uint       keys that it has let in
//	    revoked        flag
//	    labels         []text
//	    note           text
//
//	67 RevokeToken   client, control: TokensPage with the one token
//	    id             uint
//	    token          bytes 8
//
//	68 SetKey        client, control: KeysPage with the one key
//	    id             uint
//	    key            bytes 32   hash of a key, which may never have been there
//	    keep           flag       1 = the standing stays, whatever is next
//	    standing       uint       0 none, 1 admitted, 2 revoked
//	    add            []text     labels
//	    drop           []text     labels
//
//	69 GetKeys       client, control: KeysPage, by rising hash
//	    id             uint
//	    after          bytes      empty = from the first
//	    limit          uint
//
//	70 KeysPage      registry, control
//	    id             uint
//	    next           bytes
//	    keys           []key entry
//
//	key entry
//	    key            bytes 32   hash
//	    standing       uint
//	    since          uint       registry time; of the standing
//	    labels         []text     in byte order
//	    token          bytes      id of the join token that let it in; empty = none
//
//	71 ForgetNode    client, control: Done
//	    id             uint
//	    node           node
//
//	72 PurgeTopic    client, control: Done
//	    id             uint
//	    topic          text
//	    up to          uint       seq; 0 = all messages
//
//	73 DeleteTopic   client, control: Done
//	    id             uint
//	    topic          text
//
// A key that is admitted has a session whatever the registry's mode; one that is
// revoked has none: it is refused with ErrNotAdmitted, and its sessions end with
// that code. A token that is there under the same id with another hash is
// ErrConflict, one that is not there ErrNotFound. ForgetNode frees a node's place
// in the table of nodes, with its inbox, standing and labels, but a revocation
// stays; it is ErrConflict while the node has a session. PurgeTopic drops messages
// as retention does, so readers see a Gap; DeleteTopic drops all, and takes the
// topic out of every inbox. Fences stay.
//
// # Errors
//
// A refusal comes as close to its cause as it can. In all of these the number is
// the same:
//
//	Refuse             one publish; the channel goes on
//	Fail, id > 0       one request; the channel goes on
//	Fail, id 0         the channel, which ends after it; on control, the session
//	channel reset      the channel, where no frame could be sent or read: as
//	                   error code of QUIC's RESET_STREAM and STOP_SENDING
//	connection close   the session: as error code of QUIC's application close, with
//	                   a text to show of at most 512 bytes; 0 = nothing is wrong
//
// A receiver of a malformed frame resets the channel with ErrMalformed, on the
// control channel it closes the connection. A client then dials again, after a
// growing and jittered pause. A number that a receiver does not know is kept and
// shown. Retry after comes with ErrRateLimited and ErrDraining, and with others
// where the registry knows.
//
//	 1  internal           ErrInternal        a bug or a fault inside the peer
//	 2  malformed          ErrMalformed       bytes that are no canonical frame, or a frame out of place
//	 3  version_mismatch   ErrVersion         no protocol version in common
//	 4  permission_denied  ErrDenied          an access rule forbids it
//	 5  auth_required      ErrNotAdmitted     the registry does not know or admit this key
//	 6  node_id_taken      ErrNodeIDTaken     another key holds this node id
//	 7  invalid_argument   ErrInvalidTopic    not a topic
//	 8  invalid_argument   ErrInvalidPattern  not a pattern
//	 9  invalid_argument   ErrInvalid         any other argument out of its range
//	10  too_large          ErrTooLarge        payload, frame or list above its maximum
//	11  rate_limited       ErrRateLimited     above a rate; the error tells when to try again
//	12  storage_full       ErrStorageFull     the log takes no more; reads go on
//	13  wrong_epoch        ErrWrongEpoch      the condition names another epoch of the log
//	14  stale_term         ErrStaleTerm       the term is not the fence's value, or raises it too little
//	15  conflict           ErrConflict        the fence has moved since it was read
//	16  key_reused         ErrKeyReused       the idempotency key belongs to another message
//	17  unknown_outcome    ErrUnknownOutcome  whether the message is in the log cannot be told
//	18  unavailable        ErrDraining        the registry is shutting down; come back later
//	19  limit_exceeded     ErrLimit           too many connections, subscriptions, joins, …
//	20  not_found          ErrNotFound        there is no such thing
//	21  not_supported      ErrUnsupported     the peer cannot do this
//	22  wrong_key          ErrWrongKey        the registry proved another key than the pinned one
//	23  timeout            ErrTimeout         no answer within a deadline of the protocol
//	24  connection_failed  ErrNotConnected    there is no connection to the registry
//	25  closed             ErrClosed          the local side was closed
//
// The last four are made by the side that reports them.
//
// # Maximums
//
// What exceeds one is refused with the error named. The names are constants of
// this package.
//
//	MaxTopic             1024  bytes of a topic or pattern     ErrInvalidTopic, ErrInvalidPattern
//	MaxName               255  bytes of a name, of each tag    ErrInvalid
//	MaxTags                16  tags of a node                  ErrTooLarge
//	MaxToken             4096  bytes of a join token           ErrTooLarge
//	MaxKey                 32  bytes of an idempotency key     ErrInvalid
//	MaxSlot                32  bytes of a replace slot         ErrInvalid
//	MaxLabel               64  bytes of a label of a key       ErrInvalid
//	DefaultPayload    1048576  bytes of a payload, unless configured
//	MaxPayload       16777216  bytes of a payload, however configured; ErrTooLarge
//	MaxPage          16777216  bytes of a page, however configured
//	MaxFirstFrame       65536  bytes of a channel's first frame          ErrTooLarge
//	FrameOverhead       65536  bytes of a frame above the payload limit  ErrTooLarge
//	MaxDepth                8  arrays in one another           ErrMalformed
//	MaxConditions           2  conditions of a publish         ErrInvalid
//	MaxTerm  9007199254740991  a term or raise, the K of a fence         ErrInvalid
//	MaxJoin               256  topics in one Join              ErrTooLarge
//	MaxSuccessions         32  keys of a registry before its present one
//	MaxLabels              16  labels of a key, of a token     ErrTooLarge
//
// A frame takes memory only as it arrives, and what this package parses from it at
// most 20 times its bytes.
package protocol
