//go:build race

package volumes_test

// eachOf is which one of the answers of drivers is played: all are slow under the race detector. Neither quick and slow
// ones nor those before and after the work come in turns of five.
const eachOf = 5
