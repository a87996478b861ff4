package state

import "encoding/hex"

// digits are the values of the digits of a canonical UUID, and noDigit elsewhere.
var digits = func() (values [256]byte) {
	for c := range values {
		values[c] = noDigit
	}
	for value, c := range "0123456789abcdef" {
		values[c] = byte(value)
	}
	return values
}()

const noDigit = 0xff

// ShortID is a canonical UUID as its 16 bytes; ok is false for any other text.
func ShortID(s string) (raw [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return raw, false
	}
	at := 0
	for i := range raw {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := digits[s[at]], digits[s[at+1]]
		if high|low == noDigit {
			return [16]byte{}, false
		}
		raw[i] = high<<4 | low
		at += 2
	}
	return raw, true
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
