package wire

import "context"

type once struct{}

// Once returns a context for calls that are not idempotent: failed calls are retried
// only where no server has begun them.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, once{}, true) }

// IsOnce reports whether ctx was returned by [Once].
func IsOnce(ctx context.Context) bool { return ctx.Value(once{}) != nil }
