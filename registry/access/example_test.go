package access_test

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/access"
)

func Example() {
	rules, err := access.Parse("rules.txt", []byte(`
		# Guests read what is public, and nothing else.
		allow  label:guest  subscribe          public.*
		deny   label:guest  all                *
		allow  any          publish,subscribe  *
	`))
	if err != nil {
		panic(err)
	}
	guest := registry.Caller{Labels: []string{"guest"}}
	for _, topic := range []string{"public.news", "jobs.created"} {
		v := rules.Decide(&registry.Request{Caller: guest, Right: registry.RightSubscribe, Topic: topic})
		fmt.Println(topic, v.Allowed, v.Line)
	}
	// As registry.Options.Access it is the function Allow:
	fmt.Println(rules.Allow(context.Background(), registry.Request{Caller: guest, Right: registry.RightPublish, Topic: "public.news"}))

	_, err = access.Parse("rules.txt", []byte("allow any everything *"))
	fmt.Println(err)
	// Output:
	// public.news true 3
	// jobs.created false 4
	// permission denied: no right to publish "public.news"
	// rules.txt:1: "everything" is no right: publish, subscribe, admin, relay or all
}
