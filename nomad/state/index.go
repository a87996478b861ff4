package state

import "strings"

// joined is a primary key: its parts with a zero byte between them. The last part may be a beginning.
func joined(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts, "\x00")
}

// grouped is the beginning of all keys of a group: each part ends with a zero byte.
func grouped(parts []string) string {
	n := len(parts)
	for _, p := range parts {
		n += len(p)
	}
	var b strings.Builder
	b.Grow(n)
	for _, p := range parts {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.String()
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
