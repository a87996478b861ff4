// Package search has the HTTP endpoints that find objects of all kinds: by the prefix of their ids, and by a part of their names.
package search
