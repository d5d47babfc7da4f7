// Package admin is what operators look at: health, metrics and one small page about
// a registry, over HTTP.
//
// The page is a client of the registry like any other: an election's observer, a
// swarm's reader. It needs no JavaScript; with it, the tables follow by
// server-sent events. Everything is in the program: no file and no other host is
// asked.
package admin
