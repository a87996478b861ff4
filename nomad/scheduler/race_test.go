//go:build race

package scheduler_test

const raceDetector = true
