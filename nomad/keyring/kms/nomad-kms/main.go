// Nomad-kms encrypts and decrypts the wrapping keys of root keys with one external service, for the agent that started it. It
// reads JSON from its standard input, first the configuration of the service and then requests, and writes a reply as JSON to
// its standard output for each request, in order. Keys and credentials are in no argument and in no file. The program ends
// when its standard input ends.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"time"
)

// The types of this file are those of program.go in the agent's package kms. Both programs come from one build.

// setup is the first message to the program.
type setup struct {
	Provider string
	Config   map[string]string
}

// request is each further message: one of Encrypt and Decrypt is set. Timeout bounds the request.
type request struct {
	Encrypt, Decrypt []byte
	Timeout          time.Duration
}

// reply is the result of a request, or why there is none.
type reply struct {
	Result []byte
	Error  string
}

func main() {
	log.SetOutput(io.Discard) // the libraries' own messages
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var s setup
	if err := in.Decode(&s); err != nil || makers[s.Provider] == nil {
		fmt.Fprintln(os.Stderr, "nomad-kms is started by the nomad agent only")
		os.Exit(2)
	}
	requests := make(chan request)
	go func() {
		for {
			var r request
			if in.Decode(&r) != nil {
				os.Exit(0) // the agent has ended
			}
			requests <- r
		}
	}()
	service := newService(s)
	for r := range requests {
		var answer reply
		var err error
		if answer.Result, err = service.serve(r); err != nil {
			answer.Error = err.Error()
		}
		if out.Encode(answer) != nil {
			os.Exit(1)
		}
	}
}
