// Package gc decides which ended allocations a node removes. It only decides: facts go in, ids come out.
package gc
