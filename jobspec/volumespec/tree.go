package volumespec

import "fmt"

// place is where something stands in a file, from 1.
type place struct{ line, column int }

// kind tells what a value is.
type kind uint8

const (
	text kind = iota
	number
	boolean
	null
	list
	body
)

var kindNames = [...]string{"a string", "a number", "true or false", "null", "a list", "a block"}

func (k kind) String() string { return kindNames[k] }

// value is what stands behind a key, in either syntax.
type value struct {
	at    place
	kind  kind
	text  string // of a string, number or boolean
	list  []value
	items []item // of a block
}

// item is one key with its value. A key may come more than once.
type item struct {
	at    place
	key   string
	value value
}

// problem is one mistake with its place.
type problem struct {
	path string
	at   place
	why  string
}

func (p *problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.path, p.at.line, p.at.column, p.why)
}
