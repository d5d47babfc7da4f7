// Package client connects to a registry host: it publishes to topics, subscribes
// to them, reads the inbox, and survives lost connections by itself.
package client
