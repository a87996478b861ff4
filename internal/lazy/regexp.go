// Package lazy makes values of packages when they are used: every command of nomad pays for what packages make when it starts.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression at its first call. Like [regexp.MustCompile] it panics if the
// expression is wrong.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
