package wire

import "context"

type once struct{}

// Once returns a context for calls whose repetition would do something twice: who repeats calls that failed sends them
// again only where no server has begun them.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, once{}, true) }

// IsOnce reports whether ctx is of [Once].
func IsOnce(ctx context.Context) bool { return ctx.Value(once{}) != nil }
