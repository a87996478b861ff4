package main

import "encoding/binary"

// fields calls do with each length-delimited field of a protobuf message; what cannot be read ends it.
func fields(message []byte, do func(field uint64, value []byte)) {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return
		}
		message = message[n:]
		value, n := binary.Uvarint(message)
		if n <= 0 {
			return
		}
		message = message[n:]
		switch key & 7 {
		case 0:
		case 2:
			if value > uint64(len(message)) {
				return
			}
			do(key>>3, message[:value])
			message = message[value:]
		default:
			return
		}
	}
}

// text reads a string field.
func text(message []byte, field uint64) (found string) {
	fields(message, func(f uint64, value []byte) {
		if f == field {
			found = string(value)
		}
	})
	return found
}

// pairs reads a field that maps strings to strings.
func pairs(message []byte, field uint64) map[string]string {
	found := map[string]string{}
	fields(message, func(f uint64, value []byte) {
		if f == field {
			found[text(value, 1)] = text(value, 2)
		}
	})
	return found
}

// createParameters is where the parameters of a creation are.
const createParameters = 4

// secretField is where requests carry their secrets.
var secretField = map[string]uint64{
	"CreateVolume": 5, "DeleteVolume": 2, "ControllerPublishVolume": 5, "ControllerUnpublishVolume": 3,
	"ControllerExpandVolume": 3, "NodeStageVolume": 5, "NodePublishVolume": 7, "CreateSnapshot": 3, "DeleteSnapshot": 2,
}
