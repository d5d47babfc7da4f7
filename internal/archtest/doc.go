// Package archtest holds the tests of the house itself: what may import what,
// which files stay pure, how tests wait and skip, and the recorded surface of
// the public packages. It has no code of its own.
package archtest
