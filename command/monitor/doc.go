// Package monitor follows an evaluation, and the deployment that it belongs to, and tells what
// happens line by line. It ends with an exit code: 0 when everything was placed, 2 when something
// was not, 1 when a deployment failed.
package monitor
