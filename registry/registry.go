package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// Options say what a registry serves, and to whom. Log and Key are required.
type Options struct {
	// Log is what the registry stores into. It stays the caller's, who closes it
	// after the registry; nobody else appends to it meanwhile.
	Log Log

	// Key is the identity of the log, which clients pin. Successions lead to it
	// from the keys that the log had before.
	Key         ed25519.PrivateKey
	Successions []protocol.Succession

	// TicketKey lets registries of one log resume each other's sessions; zero is
	// one of this registry's own.
	TicketKey [32]byte

	// Admission says who has a session. Where it lets in everybody and Access is
	// nil, everybody may do everything, operators' work included, which is refused
	// for sockets that others than this machine reach.
	Admission Admission

	// Access decides what those may do who are let in; it is asked for RightAdmit
	// too. Where Admission does not let in everybody, nil is AccessByLabel.
	Access AccessFunc

	Limits Limits

	// Now is the clock behind registry time; time.Now by default. Deadlines and
	// rates do not go by it.
	Now func() time.Time

	// Software is the name and version to show to clients.
	Software string

	Logger   *slog.Logger // few lines, and never a payload; nil is silent
	Observer *Observer    // for metrics; nil looks at nothing
	Hooks    *Hooks       // for tests
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Log == nil:
		return o, protocol.Errorf(protocol.ErrInvalid, "no log")
	case len(o.Key) != ed25519.PrivateKeySize:
		return o, protocol.Errorf(protocol.ErrInvalid, "no key")
	}
	if o.Access == nil && o.Admission.Mode != AdmitOpen {
		o.Access = AccessByLabel
	}
	var err error
	if o.Limits, err = o.Limits.withDefaults(); err != nil {
		return o, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Software == "" {
		o.Software = "pilotgo"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = &Observer{}
	}
	if o.Hooks == nil {
		o.Hooks = &Hooks{}
	}
	return o, nil
}

// Registry is a server over one log. Its methods may be called from any
// goroutine.
type Registry struct {
	o        Options
	limits   Limits
	hooks    *Hooks
	observer *Observer
	log      Log
	epoch    protocol.Epoch
	started  protocol.Time
	lines    *lines
	meter    *meter // of all nodes
	index    *index
	seq      *sequencer

	admission admission

	ctx      context.Context // ends with Close; its cause tells the clients why
	end      context.CancelCauseFunc
	work     sync.WaitGroup // listeners and sessions
	closed   chan struct{}  // closed when Close is done
	draining atomic.Bool
	numbered atomic.Uint64 // sessions

	nodes         atomic.Int64 // accounts
	subscriptions atomic.Int64
	turnedAway    atomic.Int64 // sessions that are told so

	mu         sync.Mutex
	over       bool // nothing new begins
	listeners  map[*link.Listener]struct{}
	sessions   map[*session]struct{} // also those before their hello
	online     map[claim]*session    // of clients with an instance
	accounts   map[string]*account   // by key
	sources    map[netip.Prefix]int  // sessions by where they come from
	handshakes bucket
	looks      bucket    // at all of a shared log, for keys that are not known
	noted      time.Time // when those that are here were last noted as seen
}

// claim is one client process: of its sessions only the newest lives.
type claim struct {
	key      string
	instance protocol.Instance
}

func (c claim) shared() Claim { return Claim{Key: c.key, Instance: c.instance} }

// New makes a registry over a log. It serves nobody yet; Close must be called.
func New(o Options) (*Registry, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Registry{
		o:          o,
		limits:     o.Limits,
		hooks:      o.Hooks,
		observer:   o.Observer,
		log:        o.Log,
		epoch:      o.Log.Epoch(),
		started:    protocol.TimeOf(o.Now()),
		lines:      newLines(o.Logger),
		meter:      newMeter(o.Limits.Total),
		index:      newIndex(),
		closed:     make(chan struct{}),
		listeners:  make(map[*link.Listener]struct{}),
		sessions:   make(map[*session]struct{}),
		online:     make(map[claim]*session),
		accounts:   make(map[string]*account),
		sources:    make(map[netip.Prefix]int),
		handshakes: newBucket(o.Limits.Handshakes),
		looks:      newBucket(looksPerSecond),
		noted:      time.Now(),
	}
	if r.admission, err = o.Admission.prepare(); err != nil {
		return nil, err
	}
	b := newBroker(r.epoch, r.brokerOptions())
	if err := b.load(o.Log); err != nil {
		return nil, err
	}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	r.seq = newSequencer(o.Log, b, r.index, o.Hooks, o.Observer, o.Now)
	r.seq.tidy = r.tidy
	r.seq.judged = r.judged
	r.seq.lost = func(err error) { r.lines.warn("the log of others not followed", "error", err) }
	r.seq.unstored = func(err error) { r.lines.warn("nothing stored", "error", err, "then", r.seq.after(err)) }
	r.seq.restored = func(steps int) { r.lines.info("stored again", "steps_not_stored", steps) }
	go r.seq.run()
	return r, nil
}

func (r *Registry) brokerOptions() brokerOptions {
	o := brokerOptions{
		maxPayload: r.limits.Payload, maxJoins: r.limits.Joins, maxAllJoins: r.limits.TotalJoins,
		maxNodes: r.limits.Nodes, listed: r.admission.listed,
	}
	if r.admission.mode == AdmitOpen {
		// Strangers come under as many keys as they like.
		o.spared, o.sparedNodes, o.sparedJoins = o.withDefaults().maxFences/4, r.limits.Nodes/4, r.limits.TotalJoins/4
	}
	o.log, _ = r.log.(SenderLog)
	if _, shared := r.log.(SharedLog); shared {
		o.presence = presenceDoubt
	}
	return o
}

// Serve takes sessions from pc until the registry is closed; the error is then
// nil. pc stays the caller's. Several sockets may be served at once.
func (r *Registry) Serve(pc net.PacketConn) error {
	if err := r.checkBind(pc.LocalAddr()); err != nil {
		return err
	}
	l, err := link.Listen(pc, r.linkConfig())
	if err != nil {
		return err
	}
	if err := r.begin(l); err != nil {
		return err
	}
	return r.accept(l)
}

// Listen serves a UDP address, a host:port, in the background until the registry
// is closed, and returns the address it got.
func (r *Registry) Listen(addr string) (net.Addr, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, protocol.Errorf(protocol.ErrInvalid, "%v", err)
	}
	if err := r.checkBind(at); err != nil {
		return nil, err
	}
	l, err := link.ListenUDP(addr, r.linkConfig())
	if err != nil {
		return nil, err
	}
	if err := r.begin(l); err != nil {
		return nil, err
	}
	go func() {
		if err := r.accept(l); err != nil {
			r.lines.warn("socket lost", "address", l.Addr(), "error", err)
		}
	}()
	return l.Addr(), nil
}

// window is how far a client is ahead of the reader of one of its channels.
const window = 1 << 20

func (r *Registry) linkConfig() link.Config {
	return link.Config{
		Identity:    link.Identity{Key: r.o.Key},
		Successions: r.o.Successions,
		TicketKey:   r.o.TicketKey,
		Logger:      r.o.Logger,
		Limits: link.Limits{
			// More than subscriptions, or one too many would wait and not be refused.
			Channels: r.limits.Subscriptions + 8,
			Frame:    protocol.MaxFirstFrame,

			// Two lanes and the control channel can wait for the client to read. All
			// other channels are read at once.
			Window: window,
			Total:  4 * window,

			// What is queued for clients that do not read.
			Queue: 64 << 10,

			Source: r.limits.SourceHandshakes,
		},
	}
}

var errClosed = fmt.Errorf("registry: %w: %w", protocol.ErrClosed, net.ErrClosed)

// begin takes note of a listener, or closes it when the registry is over.
func (r *Registry) begin(l *link.Listener) error {
	r.mu.Lock()
	over := r.over
	if !over {
		r.listeners[l] = struct{}{}
		r.work.Add(1)
	}
	r.mu.Unlock()
	if over {
		l.Close()
		return errClosed
	}
	return nil
}

// accept begins sessions until the registry is closed or the socket fails.
func (r *Registry) accept(l *link.Listener) error {
	err := r.acceptAll(l)
	r.work.Done()
	if r.ctx.Err() == nil {
		l.Close()
		return err
	}
	<-r.closed
	return nil
}

func (r *Registry) acceptAll(l *link.Listener) error {
	for {
		ls, err := l.Accept(r.ctx)
		if err != nil {
			return err
		}
		s, refused := r.open(ls)
		if refused != nil {
			r.lines.warn("session refused", "from", ls.RemoteAddr(), "error", refused)
			r.observer.event(Event{
				Kind: EventSessionRefused, Op: OpConnect, Node: protocol.NodeIDOf(ls.PeerKey()), Addr: ls.RemoteAddr(), Err: refused,
			})
			r.work.Go(func() { s.turnAway(refused) })
			continue
		}
		r.work.Go(s.run)
	}
}

// open makes a session, and tells why there is no room for it where there is none:
// it must be turned away then.
func (r *Registry) open(ls *link.Session) (*session, *protocol.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := newSession(r, ls)
	switch {
	case s.operator: // must get in when strangers have taken all there is
	case len(r.sessions) >= r.limits.Sessions:
		return s, full("%d sessions are open, the maximum", r.limits.Sessions)
	case r.sources[s.source] >= r.limits.SourceSessions && s.source.IsValid():
		return s, full("%d sessions from %v are open, the maximum", r.limits.SourceSessions, s.source)
	}
	a := r.accounts[s.claim.key]
	if a == nil {
		a = newAccount(r.limits)
	}
	// Those that entered do not count: one that begins may be there to take the
	// place of one of them.
	if most := r.limits.NodeSessions; a.open-a.sessions >= most {
		return s, full("%d sessions of this node wait to begin, the maximum", most)
	}
	a.open++
	s.account = a
	r.accounts[s.claim.key] = a
	r.nodes.Store(int64(len(r.accounts)))
	r.sessions[s] = struct{}{}
	r.sources[s.source]++
	return s, nil
}

func (r *Registry) shut(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s)
	if r.sources[s.source]--; r.sources[s.source] == 0 {
		delete(r.sources, s.source)
	}
	s.account.open--
	r.forget(s.claim.key)
}

// enter counts a session as one of its node's, or refuses it. old is an earlier
// session of the same client, which must end first.
func (r *Registry) enter(s *session, i protocol.Instance) (old *session, refused *protocol.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.handshakes.lack(time.Now(), 1); wait > 0 {
		return nil, rateLimited("too many sessions begin", wait)
	}
	s.claim.instance = i
	if i != (protocol.Instance{}) {
		old = r.online[s.claim]
	}
	if most := r.limits.NodeSessions; s.account.sessions >= most && old == nil {
		return nil, full("%d sessions of this node are open, the maximum", most)
	}
	r.handshakes.take(1)
	s.account.sessions++
	if i != (protocol.Instance{}) {
		r.online[s.claim] = s
	}
	return old, nil
}

// exit takes back enter.
func (r *Registry) exit(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.account.sessions--
	if r.online[s.claim] == s {
		delete(r.online, s.claim)
	}
}

// forget drops an account that has nothing to remember. A node that published
// too fast is not free by coming back.
func (r *Registry) forget(key string) {
	if a := r.accounts[key]; a.full(time.Now()) {
		delete(r.accounts, key)
		r.nodes.Store(int64(len(r.accounts)))
	}
}

// tidy is called now and then. While there are appends they drop what is too old;
// and one that is on its way to a log that hangs is enough.
func (r *Registry) tidy(idle bool) {
	if idle {
		now := r.seq.registryTime()
		r.seq.drop(
			func() error { return r.log.Expire(now) },
			func(l PipelinedLog) (<-chan error, error) { return l.BeginExpire(now) },
			func(err error) { r.lines.warn("old messages not dropped", "error", err) },
		)
	}
	if l, ok := r.log.(interface{ Ready() error }); ok {
		if err := l.Ready(); err != nil { // it tells more than clients are told
			r.lines.warn("the log takes no messages", "error", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.accounts {
		r.forget(key)
	}
	if now := time.Now(); !r.over && now.Sub(r.noted) >= presenceEvery {
		r.noted = now
		r.work.Go(r.notePresence)
	}
}

// notePresence lets the log know that those that are here still are: a registry
// that fails does not say so at the end, and others of a shared log see no
// sessions of this one.
func (r *Registry) notePresence() {
	for after, more := protocol.NodeID(0), true; more && r.ctx.Err() == nil; more = after != 0 {
		// What the note touches is its own: it may be decided again later.
		from, next := after, make(chan protocol.NodeID, 1)
		_ = r.seq.note(func(b *broker, now protocol.Time) *protocol.Error {
			select {
			case next <- b.here(now, from, 1000):
			default:
			}
			return nil
		})
		after = <-next
	}
}

// all is every session that was admitted, by number.
func (r *Registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*session
	for s := range r.sessions {
		if s.admitted.Load() {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Disconnect ends a session, which is told the code of the reason, or
// ErrNotConnected where that is nil. It does not wait for the end. There may be
// no such session any more.
func (r *Registry) Disconnect(session uint64, reason error) {
	if reason == nil {
		reason = protocol.ErrNotConnected
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sessions {
		if s.id == session {
			s.end(reason)
		}
	}
}

const (
	// comeBack is when clients may try again that are sent away.
	comeBack = time.Second

	// leaving is how much longer than a few round trips a client has to take the
	// last answers and go by itself.
	leaving = 50 * time.Millisecond
)

// Shutdown ends the registry gently: clients are told to come back later, new
// sessions and publishes are refused with ErrDraining, what was received is
// answered, and then the sessions are closed. When ctx ends first they are closed
// at once, and the error is that of ctx. It returns when nothing is left.
func (r *Registry) Shutdown(ctx context.Context) error {
	r.draining.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(r.ctx, cancel)
	defer stop()
	var sessions sync.WaitGroup
	for _, s := range r.all() {
		sessions.Go(func() { s.drain(ctx) })
	}
	sessions.Wait()
	err := ctx.Err()
	if r.ctx.Err() != nil {
		err = nil // Close was faster
	}
	r.Close()
	return err
}

func drainRefusal() *protocol.Error {
	return &protocol.Error{Code: protocol.ErrDraining, RetryAfter: comeBack}
}

// Close ends the registry at once: all sessions are closed with ErrDraining. It
// waits until nothing of it is left and may be called again. The error is always
// nil.
func (r *Registry) Close() error {
	r.mu.Lock()
	first := !r.over
	r.over = true
	r.mu.Unlock()
	if !first {
		<-r.closed
		return nil
	}
	r.draining.Store(true)
	r.end(protocol.Errorf(protocol.ErrDraining, "the registry has stopped"))
	r.work.Wait()
	for l := range r.listeners {
		l.Close()
	}
	r.seq.close()
	close(r.closed)
	return nil
}

// Announce tells all clients of the registry's next key, and returns when each has
// been told or ctx has ended. Once Key is that key, the statement belongs into
// Options.Successions.
func (r *Registry) Announce(ctx context.Context, s protocol.Succession) error {
	if !s.Verify() || !s.Old.Equal(r.o.Key.Public()) {
		return protocol.Errorf(protocol.ErrInvalid, "not signed with this registry's key")
	}
	var sessions sync.WaitGroup
	for _, to := range r.all() {
		sessions.Go(func() { _ = to.tell(ctx, to.control, &protocol.Successor{Succession: s}) })
	}
	sessions.Wait()
	return ctx.Err()
}
