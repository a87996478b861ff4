// Package sdk runs the tests of the public Go SDK of the compatible system (github.com/hashicorp/nomad/api, MPL-2.0)
// against our program. The SDK is a dependency of these tests alone, which is why they are a module of their own.
//
// passing.txt lists the tests that pass. A listed test that fails several times is an error, and so is an unlisted test
// that passes.
package sdk
