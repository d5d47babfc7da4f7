// Package disklog is a registry's log in a folder.
package disklog
