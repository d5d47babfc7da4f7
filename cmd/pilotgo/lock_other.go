//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package main

import "os"

// tryLock does nothing: this system has no lock that ends with its process.
// Files are still replaced as a whole.
func tryLock(*os.File) (bool, error) { return true, nil }
