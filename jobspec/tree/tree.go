package tree

import "fmt"

// Place is where something stands in a file: line and column, from 1.
type Place struct{ Line, Column int }

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	String Kind = iota
	Number
	Bool
	Null // in JSON only
	List
	Block
)

var kindNames = [...]string{"a string", "a number", "true or false", "null", "a list", "a block"}

func (k Kind) String() string { return kindNames[k] }

// Value is what stands behind a key, in either syntax.
type Value struct {
	At    Place
	Kind  Kind
	Text  string // of a string; of a number or truth value as it is written
	List  []Value
	Items []Item // of a block
}

// Item is one key with its value. A key may come more than once. Labels stand between a key and its block; in JSON
// they are keys of blocks between.
type Item struct {
	At     Place
	Key    string
	Labels []string
	Value  Value
}

// Error is one mistake with its place; it reads path:line:column: reason.
type Error struct {
	Path   string
	At     Place
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.At.Line, e.At.Column, e.Reason)
}
