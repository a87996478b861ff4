package state

import "strings"

// joined is a primary key: its parts with a zero byte between them. The last part may be a beginning.
func joined(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts, "\x00")
}

// grouped is the beginning of all keys of a group.
func grouped(parts []string) string {
	b := make([]byte, 0, 64)
	for _, p := range parts {
		b = appendPart(b, p)
	}
	return string(b)
}

// idMark begins a part that is an id of 16 bytes.
const idMark = 1

// appendPart adds a part of a key of a group: a UUID short, any other text with a zero byte after it.
func appendPart(b []byte, part string) []byte {
	if raw, ok := ShortID(part); ok {
		return append(append(b, idMark), raw[:]...)
	}
	return append(append(b, part...), 0)
}

// member is the key of a row in a group.
func member(group, primary string) string {
	b := make([]byte, 0, 128)
	return string(appendPart(append(b, group...), primary))
}

// unique is the primary index of a table.
func unique[T any](parts func(*T) []string) *index {
	return &index{name: "id", keys: func(row any) []string {
		r, ok := row.(*T)
		if !ok {
			return []string{""}
		}
		return []string{joined(parts(r))}
	}}
}

// by groups rows by a tuple of strings; nil parts leave a row out.
func by[T any](name string, parts func(*T) []string) *index {
	return &index{name: name, keys: func(row any) []string {
		r, ok := row.(*T)
		if !ok {
			return nil
		}
		p := parts(r)
		if p == nil {
			return nil
		}
		return []string{grouped(p)}
	}}
}

// byEach puts a row into a group for each of several values.
func byEach[T any](name string, values func(*T) []string) *index {
	return &index{name: name, keys: func(row any) []string {
		r, ok := row.(*T)
		if !ok {
			return nil
		}
		var keys []string
		for _, v := range values(r) {
			keys = append(keys, grouped([]string{v}))
		}
		return keys
	}}
}

func tableOf(name string, indexes ...*index) *layout { return &layout{name, indexes} }
