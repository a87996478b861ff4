package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

func TestClassSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("stage v1: %w", fault.New(fault.NotFound, "volume %q: %w", "v1", io.EOF))
	if !errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) {
		t.Fatalf("class of %v is %v", err, fault.Of(err))
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal("the cause is lost")
	}
	if got := err.Error(); got != `stage v1: volume "v1": EOF` {
		t.Fatalf("text is %q", got)
	}
}

func TestOuterClassWins(t *testing.T) {
	err := fault.Wrap(fault.Unavailable, fault.New(fault.NotFound, "plugin"))
	if fault.Of(err) != fault.Unavailable {
		t.Fatalf("class is %v", fault.Of(err))
	}
}

func TestUnclassedIsInternal(t *testing.T) {
	if fault.Of(io.EOF) != fault.Internal || fault.Wrap(fault.Invalid, nil) != nil {
		t.Fatal("unclassed errors must be internal and nil must stay nil")
	}
}

func TestEveryClassHasNameAndStatus(t *testing.T) {
	for c := fault.Internal; c <= fault.Unauthenticated; c++ {
		if c != fault.Internal && (c.String() == "internal" || c.HTTPStatus() == 500) {
			t.Errorf("class %d has no name or status", c)
		}
	}
}
