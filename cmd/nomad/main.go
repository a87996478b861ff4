package main

import (
	"context"
	"os"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/command/agent"
)

func main() {
	root := command.New(agent.Command(command.Version), agent.Hostpath())
	os.Exit(command.Run(context.Background(), root, os.Args))
}
