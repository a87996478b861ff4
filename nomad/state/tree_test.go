package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sound checks the shape of a tree: sizes, order, and that inner nodes hold the first cells of their kids.
func sound(n *node[record], root bool) error {
	if n == nil {
		return nil
	}
	if len(n.entries) >= nodeMax || len(n.entries) == 0 || cap(n.entries) > nodeMax {
		return fmt.Errorf("a node of %d entries", len(n.entries))
	}
	if n.kids != nil && (len(n.kids) != len(n.entries) || root && len(n.kids) < 2) {
		return fmt.Errorf("%d kids of %d entries", len(n.kids), len(n.entries))
	}
	for i, e := range n.entries {
		if e.head != headOf(e.key) || i > 0 && n.entries[i-1].key >= e.key {
			return fmt.Errorf("%q at %d", e.key, i)
		}
		if n.kids == nil {
			continue
		}
		kid := n.kids[i]
		if err := sound(kid, false); err != nil {
			return err
		}
		if kid.entries[0].cell != e.cell || i+1 < len(n.entries) && kid.entries[len(kid.entries)-1].key >= n.entries[i+1].key {
			return fmt.Errorf("the kid of %q begins with %q", e.key, kid.entries[0].key)
		}
	}
	return nil
}

func contents(n *node[record], from string) (keys []string, rows []any) {
	n.from(from, func(c *cell[record]) bool {
		keys, rows = append(keys, c.key), append(rows, c.value.row)
		return true
	})
	return keys, rows
}

// same compares a tree with what it should hold.
func same(n *node[record], want map[string]int) error {
	if err := sound(n, true); err != nil {
		return err
	}
	keys, rows := contents(n, "")
	if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
		return fmt.Errorf("keys %q, want %q", keys, slices.Sorted(maps.Keys(want)))
	}
	for i, k := range keys {
		if c := n.get(k); rows[i] != want[k] || c == nil || c.value.row != want[k] {
			return fmt.Errorf("%q is %v, want %d", k, rows[i], want[k])
		}
	}
	return nil
}

func TestTreesHoldWhatASortedMapHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := func() string {
			if rapid.Bool().Draw(t, "short") {
				return strings.Repeat("\x00", rapid.IntRange(0, 3).Draw(t, "zeros")) + rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 3, -1).Draw(t, "text")
			}
			return fmt.Sprintf("default\x00%d", rapid.IntRange(0, 400).Draw(t, "number"))
		}
		var root *node[record]
		now, value := map[string]int{}, 0
		putAt := map[string]uint64{}
		var olds []*node[record]
		var thens []map[string]int
		for writer := range rapid.Uint64Range(1, 6).Draw(t, "writers") {
			olds, thens = append(olds, root), append(thens, maps.Clone(now))
			shrink := rapid.IntRange(0, 3).Draw(t, "shrink") == 0
			for range rapid.IntRange(0, 300).Draw(t, "changes") {
				k := key()
				if shrink && len(now) > 0 {
					all := slices.Sorted(maps.Keys(now))
					k = all[rapid.IntRange(0, len(all)-1).Draw(t, "victim")]
					root = root.remove(edit{writer + 1, 10 * writer}, headOf(k), k)
					delete(now, k)
					delete(putAt, k)
					continue
				}
				value++
				next, old := root.put(edit{writer + 1, 10 * writer}, headOf(k), &cell[record]{k, record{row: value}})
				if was, had := now[k]; had != (old != nil) || had && old.value.row != was {
					t.Fatalf("put of %q replaced %v, not %d", k, old, was)
				}
				root, now[k], putAt[k] = next, value, 10*writer
			}
			if err := same(root, now); err != nil {
				t.Fatal(err)
			}
		}
		for i, old := range olds {
			if err := same(old, thens[i]); err != nil {
				t.Fatalf("version %d changed: %v", i, err)
			}
		}
		index := 10 * rapid.Uint64Range(0, 6).Draw(t, "index")
		var news []string
		root.since(index, func(c *cell[record]) bool {
			news = append(news, c.key)
			return true
		})
		if !slices.IsSorted(news) {
			t.Fatalf("since %d: %q", index, news)
		}
		for k, at := range putAt {
			if _, told := slices.BinarySearch(news, k); at > index && !told {
				t.Fatalf("since %d: %q is not told, it came at %d", index, k, at)
			}
		}
		begin := key()
		keys, _ := contents(root, begin)
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(k string) bool { return k < begin })
		if !slices.Equal(keys, want) {
			t.Fatalf("from %q: %q, want %q", begin, keys, want)
		}
		if root.get("absent") != nil {
			t.Fatal("found what is not there")
		}
	})
}

func TestBuiltTreesAreSound(t *testing.T) {
	for _, size := range []int{0, 1, 23, 24, 25, 575, 576, 577, 20_000} {
		entries, want := make([]entry[record], 0, size), map[string]int{}
		for i := range size {
			k := fmt.Sprintf("%08d", i)
			entries, want[k] = append(entries, entry[record]{headOf(k), &cell[record]{k, record{row: i}}}), i
		}
		if err := same(build(edit{1, 1}, entries), want); err != nil {
			t.Errorf("%d: %v", size, err)
		}
	}
}

func TestSinceVisitsWhatChanged(t *testing.T) {
	var entries []entry[record]
	for i := range 20_000 {
		k := fmt.Sprintf("%08d", i)
		entries = append(entries, entry[record]{headOf(k), &cell[record]{key: k}})
	}
	root := build(edit{1, 1}, entries)
	root, _ = root.put(edit{2, 2}, headOf("00010000"), &cell[record]{key: "00010000"})
	visited := 0
	root.since(1, func(*cell[record]) bool { visited++; return true })
	if visited == 0 || visited > nodeMax {
		t.Errorf("one change: %d cells were visited", visited)
	}
	if root.since(2, func(*cell[record]) bool { visited = -1; return true }); visited < 0 {
		t.Error("nothing changed, and cells were visited")
	}
}
