//go:build !race

package volumes_test

// eachOf is which one of the answers of drivers is played.
const eachOf = 1
