package election_test

import (
	"fmt"

	"github.com/pilotgo/pilotgo/election"
)

// The priority that the recipe computes in a shell: echo -n ID | cksum.
func ExampleDefaultPriority() {
	fmt.Println(election.DefaultPriority("123456789"))
	// Output:
	// 930766865
}
