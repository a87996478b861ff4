package fault_test

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api/fault"
)

// An error is made with a class where it is known, wrapped on its way, and decided on by the class.
func ExampleNew() {
	err := fault.New(fault.NotFound, "volume %q in namespace %q", "db", "default")
	err = fmt.Errorf("register job: %w", err)

	fmt.Println(err)
	fmt.Println(errors.Is(err, fault.NotFound), errors.Is(err, fault.Unavailable))
	// Output:
	// register job: volume "db" in namespace "default"
	// true false
}
