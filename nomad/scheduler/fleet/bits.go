package fleet

import (
	"iter"
	"math/bits"
	"slices"
)

// Bits is a set of small numbers: of cores by id, of instances by position. Methods that answer a set
// leave the old one as it was.
type Bits []uint64

// Has reports whether the number is in the set.
func (b Bits) Has(i int) bool { return i >= 0 && i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

// With returns the set and the number.
func (b Bits) With(i int) Bits {
	if i < 0 || b.Has(i) {
		return b
	}
	out := make(Bits, max(len(b), i/64+1))
	copy(out, b)
	out[i/64] |= 1 << (i % 64)
	return out
}

// Minus returns what is in b and not in other.
func (b Bits) Minus(other Bits) Bits {
	out := slices.Clone(b)
	for i := range min(len(b), len(other)) {
		out[i] &^= other[i]
	}
	return out
}

// And returns what is in both.
func (b Bits) And(other Bits) Bits {
	out := slices.Clone(b[:min(len(b), len(other))])
	for i := range out {
		out[i] &= other[i]
	}
	return out
}

// Len is how many numbers are in the set.
func (b Bits) Len() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// All are the numbers in the set, lowest first.
func (b Bits) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// set changes the set in place; the number must be less than 64 times its length.
func (b Bits) set(i int) { b[i/64] |= 1 << (i % 64) }

func bitsOf(ids []uint16) Bits {
	top := -1
	for _, id := range ids {
		top = max(top, int(id))
	}
	b := make(Bits, (top+64)/64)
	for _, id := range ids {
		b.set(int(id))
	}
	return b
}
