// Package monitor follows an evaluation and its deployment, and prints each event as one line. It ends with an exit
// code: 0 when everything was placed, 2 when something was not, 1 when a deployment failed.
package monitor
