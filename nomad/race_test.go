//go:build race

package nomad_test

// sparse says that one bad value of so many is tried: the race detector makes each ten times as dear.
const sparse = 10

// stories is how many stories of users are told.
const stories = 2
