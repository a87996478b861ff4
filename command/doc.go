// Package command is the tree of the command line: nouns with their verbs, and the short forms
// that users know at the top. Verbs reach the cluster through api/rest only.
//
//	os.Exit(command.Run(ctx, command.New(agent.Command(command.Version)), os.Args))
//
// Exit codes: 0 done, 1 error, 2 something was not placed, 127 no such command; a plan has its own.
package command
