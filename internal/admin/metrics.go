package admin

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Metrics count what a registry does. Their names begin with pilotgo_registry_.
type Metrics struct {
	all *prometheus.Registry

	operations *prometheus.CounterVec   // op, code
	latency    *prometheus.HistogramVec // op
	appends    prometheus.Histogram
	batches    prometheus.Histogram
	stored     prometheus.Counter
	storedSize prometheus.Counter
	delivered  prometheus.Counter
	sentSize   prometheus.Counter
	lag        prometheus.Histogram
	opened     prometheus.Counter
	closed     *prometheus.CounterVec // code
	returned   prometheus.Counter

	published prometheus.Counter // of operations
	publishes prometheus.Observer
	rates     *rates
	seen      *returns
}

// Source is what gauges are read from.
type Source struct {
	Info    func() protocol.InfoState
	Stats   func() registry.LogStats
	Usage   func() registry.Usage
	Stalled func() time.Duration
}

// NewMetrics makes metrics whose gauges come from a source.
func NewMetrics(from Source) *Metrics {
	m := &Metrics{all: prometheus.NewPedanticRegistry(), rates: newRates(time.Now), seen: newReturns()}
	name := func(s string) string { return "pilotgo_registry_" + s }
	m.operations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name("operations_total"), Help: "Requests of clients by what was asked and how it ended; code is ok, or that of the refusal.",
	}, []string{"op", "code"})
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name("operation_seconds"), Help: "From reading a request to handing its answer to the connection; publishes that come together count as one.",
		Buckets: prometheus.ExponentialBuckets(50e-6, 2, 18),
	}, []string{"op"})
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("append_seconds"), Help: "How long the log takes to store a batch.", Buckets: prometheus.ExponentialBuckets(10e-6, 2, 18),
	})
	m.batches = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("append_messages"), Help: "Messages stored in one batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 7),
	})
	m.stored = prometheus.NewCounter(prometheus.CounterOpts{Name: name("stored_messages_total"), Help: "Messages stored."})
	m.storedSize = prometheus.NewCounter(prometheus.CounterOpts{Name: name("stored_bytes_total"), Help: "Payload bytes stored."})
	m.delivered = prometheus.NewCounter(prometheus.CounterOpts{Name: name("delivered_messages_total"), Help: "Messages handed to the connections of subscribers."})
	m.sentSize = prometheus.NewCounter(prometheus.CounterOpts{Name: name("delivered_bytes_total"), Help: "Payload bytes of them."})
	m.lag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("reader_lag_messages"), Help: "How far behind the head of the log a subscriber is after a delivery.", Buckets: append([]float64{0}, prometheus.ExponentialBuckets(1, 8, 8)...),
	})
	m.opened = prometheus.NewCounter(prometheus.CounterOpts{Name: name("sessions_opened_total"), Help: "Sessions that were admitted."})
	m.closed = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("sessions_closed_total"), Help: "Sessions that ended, by why."}, []string{"code"})
	m.returned = prometheus.NewCounter(prometheus.CounterOpts{Name: name("reconnects_total"), Help: "Sessions of nodes that had one in the ten minutes before."})
	m.published = m.operations.WithLabelValues(opName(registry.OpPublish), "ok")
	m.publishes = m.latency.WithLabelValues(opName(registry.OpPublish))
	m.all.MustRegister(
		m.operations, m.latency, m.appends, m.batches, m.stored, m.storedSize, m.delivered, m.sentSize, m.lag,
		m.opened, m.closed, m.returned, gauges(from.Info, from.Stats), bounds(from.Usage),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name("log_stalled_seconds"), Help: "How long the log has been at what it stores now; a disk or cluster that hangs makes it grow.",
		}, func() float64 { return from.Stalled().Seconds() }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.all, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Rates are messages a second by topic, over the last minute.
func (m *Metrics) Rates() map[string]float64 { return m.rates.perSecond() }

// Observer counts for the metrics.
func (m *Metrics) Observer() *registry.Observer {
	return &registry.Observer{
		Event: m.event,
		Published: func(n int, took time.Duration) {
			m.published.Add(float64(n))
			m.publishes.Observe(took.Seconds())
		},
		Answered: func(op registry.Op, took time.Duration) {
			m.operations.WithLabelValues(opName(op), "ok").Inc()
			m.latency.WithLabelValues(opName(op)).Observe(took.Seconds())
		},
		Stored: func(records []*registry.Record, took time.Duration) {
			bytes := 0
			for _, r := range records {
				bytes += len(r.Payload)
			}
			m.stored.Add(float64(len(records)))
			m.storedSize.Add(float64(bytes))
			m.batches.Observe(float64(len(records)))
			m.appends.Observe(took.Seconds())
			m.rates.add(records)
		},
		Delivered: func(n, bytes int, lag uint64) {
			m.delivered.Add(float64(n))
			m.sentSize.Add(float64(bytes))
			m.lag.Observe(float64(lag))
		},
	}
}

func (m *Metrics) event(e registry.Event) {
	switch e.Kind {
	case registry.EventSessionOpened:
		m.opened.Inc()
		if m.seen.again(e.Node, time.Now()) {
			m.returned.Inc()
		}
	case registry.EventSessionClosed:
		m.closed.WithLabelValues(codeName(e.Err)).Inc()
		m.seen.left(e.Node, time.Now())
	case registry.EventSubscribed:
		m.operations.WithLabelValues(opName(e.Op), "ok").Inc()
	case registry.EventRefused, registry.EventSessionRefused:
		m.operations.WithLabelValues(opName(e.Op), codeName(e.Err)).Inc()
	default: // the others come in numbers
	}
}

func codeName(err error) string {
	if err == nil {
		return "ok"
	}
	return protocol.CodeOf(err).Name()
}

var opNames = [...]string{
	registry.OpConnect: "connect", registry.OpPublish: "publish", registry.OpSubscribe: "subscribe",
	registry.OpGetFence: "get_fence", registry.OpSetFence: "set_fence", registry.OpJoin: "join",
	registry.OpGetJoined: "get_joined", registry.OpGetInbox: "get_inbox", registry.OpClearInbox: "clear_inbox",
	registry.OpGetInfo: "get_info", registry.OpGetNodes: "get_nodes", registry.OpGetTopics: "get_topics",
	registry.OpOperate: "operate",
}

func opName(op registry.Op) string {
	if int(op) < len(opNames) && opNames[op] != "" {
		return opNames[op]
	}
	return "other"
}

// gauge is a number that is read when it is asked for.
type gauge struct {
	desc *prometheus.Desc
	read func(protocol.InfoState, registry.LogStats) float64
}

type gaugeList struct {
	info  func() protocol.InfoState
	stats func() registry.LogStats
	list  []gauge
}

func gauges(info func() protocol.InfoState, stats func() registry.LogStats) *gaugeList {
	g := &gaugeList{info: info, stats: stats}
	add := func(name, help string, read func(protocol.InfoState, registry.LogStats) float64) {
		g.list = append(g.list, gauge{prometheus.NewDesc("pilotgo_registry_"+name, help, nil, nil), read})
	}
	add("sessions", "Sessions now.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Sessions) })
	add("subscriptions", "Subscriptions now.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Subscriptions) })
	add("nodes", "Nodes the registry knows.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Nodes) })
	add("nodes_online", "Nodes that have a session.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Online) })
	add("log_head_seq", "The highest seq of the log.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Head) })
	add("log_topics", "Topics with retained messages.", func(_ protocol.InfoState, s registry.LogStats) float64 { return float64(s.Topics) })
	add("log_messages", "Retained messages.", func(_ protocol.InfoState, s registry.LogStats) float64 { return float64(s.Messages) })
	add("log_bytes", "Payload bytes of retained messages.", func(_ protocol.InfoState, s registry.LogStats) float64 { return float64(s.Bytes) })
	add("log_keys", "Idempotency keys remembered.", func(_ protocol.InfoState, s registry.LogStats) float64 { return float64(s.Keys) })
	add("born_seconds", "When the log began, in unix seconds; another value is another epoch.", func(i protocol.InfoState, _ registry.LogStats) float64 { return float64(i.Born) })
	return g
}

// Describe implements prometheus.Collector.
func (g *gaugeList) Describe(to chan<- *prometheus.Desc) {
	for _, x := range g.list {
		to <- x.desc
	}
}

// Collect implements prometheus.Collector.
func (g *gaugeList) Collect(to chan<- prometheus.Metric) {
	info, stats := g.info(), g.stats()
	for _, x := range g.list {
		to <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, x.read(info, stats))
	}
}

// isGroupTopic reports whether a topic is a group's or a swarm's, which have places
// of their own among the rates.
func isGroupTopic(topic string) bool {
	return strings.HasPrefix(topic, "election:") || strings.HasPrefix(topic, "config:")
}
