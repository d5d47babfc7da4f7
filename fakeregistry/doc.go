// Package fakeregistry is a registry for tests: the real one, on a log in memory,
// behind a network that can be cut.
package fakeregistry
