// Package workqueue tries keyed work again until it succeeds, with growing waits between the tries of a key.
package workqueue
