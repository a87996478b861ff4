package state

import (
	"encoding/hex"
	"strings"
)

// ShortID is a canonical UUID as its 16 bytes; ok is false for any other text.
func ShortID(s string) (raw [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || strings.ToLower(s) != s {
		return raw, false
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	_, err := hex.Decode(raw[:], digits[:])
	return raw, err == nil
}

// LongID is the text of a [ShortID].
func LongID(raw [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], raw[:4])
	hex.Encode(b[9:13], raw[4:6])
	hex.Encode(b[14:18], raw[6:8])
	hex.Encode(b[19:23], raw[8:10])
	hex.Encode(b[24:], raw[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}
