package steps_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client/steps"
)

// printed is a step that tells what is done to it.
type printed struct {
	name string
	up   error
}

func (p printed) Name() string { return p.name }

func (p printed) Up(context.Context, *struct{}) error {
	fmt.Println("up", p.name)
	return p.up
}

func (p printed) Down(context.Context, *struct{}) error {
	fmt.Println("down", p.name)
	return nil
}

// notes is a journal in memory.
type notes map[string]string

func (n notes) Marks() (map[string]string, error) { return n, nil }

func (n notes) Mark(step, mark string) error {
	n[step] = mark
	return nil
}

// A step that failed has begun: it is taken down, and so are those before it, in reverse.
func ExampleEngine() {
	list := []steps.Step[struct{}]{printed{name: "directories"}, printed{name: "volumes", up: errors.New("no plugin")}, printed{name: "tasks"}}
	e := steps.New(list, notes{}, steps.DefaultPace, hclog.NewNullLogger())
	ctx, scope := context.Background(), &struct{}{}

	fmt.Println(e.Up(ctx, scope))
	fmt.Println(e.Down(ctx, scope))
	// Output:
	// up directories
	// up volumes
	// volumes: no plugin
	// down volumes
	// down directories
	// <nil>
}
