// Package search serves searches for objects whose names contain a text.
package search
