package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotgo/pilotgo/registry"
)

// boundList has how much is used of each thing that is bounded, and the bound.
type boundList struct {
	usage       func() registry.Usage
	used, limit *prometheus.Desc
}

func bounds(usage func() registry.Usage) *boundList {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("pilotgo_registry_"+name, help, []string{"of"}, nil)
	}
	return &boundList{
		usage: usage,
		used:  desc("used", "How many there are of what is bounded."),
		limit: desc("limit", "How many there can be; more are refused. With --admit open the last quarter of nodes, inbox_topics and fences is for nodes that an operator has named."),
	}
}

// Describe implements prometheus.Collector.
func (b *boundList) Describe(to chan<- *prometheus.Desc) {
	to <- b.used
	to <- b.limit
}

// Collect implements prometheus.Collector.
func (b *boundList) Collect(to chan<- prometheus.Metric) {
	u := b.usage()
	for _, x := range []struct {
		of string
		registry.Share
	}{
		{"sessions", u.Sessions}, {"subscriptions", u.Subscriptions}, {"nodes", u.Nodes}, {"inbox_topics", u.Inboxes},
		{"fences", u.Fences}, {"tokens", u.Tokens}, {"keys", u.Keys},
	} {
		to <- prometheus.MustNewConstMetric(b.used, prometheus.GaugeValue, float64(x.Used), x.of)
		to <- prometheus.MustNewConstMetric(b.limit, prometheus.GaugeValue, float64(x.Limit), x.of)
	}
}
