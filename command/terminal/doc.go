// Package terminal connects a command in a task to the terminal of the user.
package terminal
