// Package bounds limits the size of a job, for generated texts: parsers recurse, and a stack that overflows ends the
// process.
package bounds

import "github.com/open-nomad/open-nomad/api/fault"

// Limits of a job.
const (
	// SizeMax is the largest file in bytes.
	SizeMax = 1 << 20
	// JSONMax is the largest job in JSON, in bytes.
	JSONMax = 8 << 20
	// DepthMax is the deepest nesting of brackets and templates.
	DepthMax = 100
	// GroupsMax is how many groups a job may have.
	GroupsMax = 10_000
	// TasksMax is how many tasks all groups of a job may have.
	TasksMax = 20_000
	// EntriesMax is how many entries all lists and maps of a job may have.
	EntriesMax = 200_000
	// NamesMax is how many variables and how many locals a file may have.
	NamesMax = 1000
	// ExponentMax is the largest binary exponent of a number; decimals of larger ones are long.
	ExponentMax = 2048
)

// CheckSize refuses a file of more than [SizeMax] bytes; the path is for the error, which is of the class
// [fault.TooLarge].
func CheckSize(path string, bytes int) error {
	if bytes > SizeMax {
		return fault.New(fault.TooLarge, "%s: %d bytes exceed the limit of %d", path, bytes, SizeMax)
	}
	return nil
}

// CheckJSONSize refuses a job in JSON of more than [JSONMax] bytes with an error of the class [fault.TooLarge].
func CheckJSONSize(bytes int) error {
	if bytes > JSONMax {
		return fault.New(fault.TooLarge, "job: %d bytes exceed the limit of %d", bytes, JSONMax)
	}
	return nil
}

// CheckJSON refuses texts that are too large or nested too deeply.
func CheckJSON(body []byte) error {
	if err := CheckJSONSize(len(body)); err != nil {
		return err
	}
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > DepthMax {
				return TooDeep(i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// TooDeep is the error of a text in JSON that nests too deeply at a byte, counted from 0.
func TooDeep(at int) error {
	return fault.New(fault.Invalid, "job: nested deeper than %d levels at byte %d", DepthMax, at)
}
