package mask_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/mask"
)

func TestValuesAreHiddenInEveryForm(t *testing.T) {
	for _, secret := range []string{
		"hunter2", "p@ss/w0rd+&= ?", "quote\"back\\slash", "line one of it\nline two of it\n", "äöü-ß-ключ", "<b>&'x'", "word", "ab\tcd\x00ef",
		strings.Repeat("0123456789abcdef", 8),
	} {
		quoted, err := json.Marshal(map[string]string{"k": secret})
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{
			"as it is":    "login with " + secret + " failed",
			"twice":       secret + secret,
			"query":       "GET /?p=" + url.QueryEscape(secret),
			"path":        "GET /" + url.PathEscape(secret) + "/x",
			"lower query": strings.ToLower("GET /?p=") + lower(url.QueryEscape(secret)),
			"json":        string(quoted),
			"go":          fmt.Sprintf("%q", secret),
			"go ascii":    strconv.QuoteToASCII(secret),
			"base64":      base64.StdEncoding.EncodeToString([]byte(secret)),
			"base64 url":  base64.RawURLEncoding.EncodeToString([]byte(secret)),
			"hex":         hex.EncodeToString([]byte(secret)),
			"upper hex":   strings.ToUpper(hex.EncodeToString([]byte(secret))),
			"trimmed":     "with " + strings.TrimSpace(secret) + ", sorry",
		} {
			got := mask.Text(text, map[string]string{"p": secret})
			if got == text || !strings.Contains(got, mask.Hidden) {
				t.Errorf("%q is told by its form %q: %s", secret, form, got)
			}
			for _, line := range strings.Split(strings.TrimSpace(secret), "\n") {
				if strings.Contains(got, line) {
					t.Errorf("%q in %q: %s is left in %q", secret, form, line, got)
				}
			}
		}
	}
}

func lower(s string) string {
	return regexp.MustCompile(`%..`).ReplaceAllStringFunc(s, strings.ToLower)
}

func TestValueInsideOfAnEncodedTextIsHidden(t *testing.T) {
	const secret = "s3cr3t-passw0rd"
	for _, user := range []string{"a", "ab", "abc", "admin"} {
		text := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret+"@host"))
		got := mask.Text(text, map[string]string{"password": secret})
		if !strings.Contains(got, mask.Hidden) {
			t.Errorf("user %q: %s", user, got)
		}
		for _, word := range strings.Fields(got) {
			for cut := range 4 {
				if raw, _ := base64.RawStdEncoding.DecodeString(word[min(cut, len(word)):]); strings.Contains(string(raw), "passw") {
					t.Errorf("user %q: %s still has %q", user, got, raw)
				}
			}
		}
	}
}

func TestLinesOfAKeyAreHidden(t *testing.T) {
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQC7\n-----END KEY-----\n"
	got := mask.Text("cannot parse line 2: MIIEvQIBADANBgkqhkiG9w0BAQ: bad", map[string]string{"key": key})
	if got != "cannot parse line 2: [secret]: bad" {
		t.Errorf("the text is %q", got)
	}
}

func TestLongerOfTwoValuesIsHiddenWhole(t *testing.T) {
	got := mask.Text("with password1 and 1password", map[string]string{"a": "password", "b": "password1", "c": "1pass"})
	if got != "with [secret] and [secret]" {
		t.Errorf("the text is %q", got)
	}
}

func TestShortValuesAreHiddenBesideTheirKey(t *testing.T) {
	for text, want := range map[string]string{
		"vol-1 on host 1 is true": "vol-1 on host 1 is true",
		"pin=1 refused":           "pin=[secret] refused",
		`{"pin":"1","n":1}`:       `{"pin":"[secret]","n":1}`,
		"pin: 1":                  "pin: [secret]",
		"spin=1 pin=12":           "spin=1 pin=12",
		"tls=true":                "tls=[secret]",
	} {
		if got := mask.Text(text, map[string]string{"pin": "1", "tls": "true"}); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestValuesAreHiddenByTheirNames(t *testing.T) {
	for text, want := range map[string]string{
		"mount -o username=u,password=hunter2,vers=3": "mount -o username=u,password=[secret],vers=3",
		`{"apiKey": "abc def", "zone": "a"}`:          `{"apiKey": "[secret]", "zone": "a"}`,
		"credentials=/etc/smb rw":                     "credentials=[secret] rw",
		"AWS_SECRET_ACCESS_KEY='x y' run":             "AWS_SECRET_ACCESS_KEY='[secret]' run",
		"https://h/?token=abc&x=1":                    "https://h/?token=[secret]&x=1",
		"secret: not found":                           "secret: not found",
		"failed to read the secret of volume v":       "failed to read the secret of volume v",
		"keyring=x monkey=y":                          "keyring=x monkey=y",
		"password=[secret]":                           "password=[secret]",
	} {
		if got := (*mask.Masker)(nil).Text(text); got != want {
			t.Errorf("%q becomes %q, wanted %q", text, got, want)
		}
	}
}

func TestFlagsThatLookSecretAreRemembered(t *testing.T) {
	m := mask.New()
	m.AddFlags([]string{"noatime", "vers=3.0,password=hunter2", "uid=1000"})
	if got := m.Text("cannot log in with hunter2 as 1000, noatime, 3.0"); got != "cannot log in with [secret] as 1000, noatime, 3.0" {
		t.Errorf("the text is %q", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := mask.New(map[string]string{"k": "first value"})
	for i := range 2000 {
		m.Add(map[string]string{"k": fmt.Sprintf("value number %d", i)})
		if i%100 == 0 {
			m.Add(map[string]string{"k": "often used"})
		}
	}
	if got := m.Text("first value, value number 1999, often used"); got != "first value, [secret], [secret]" {
		t.Errorf("the text is %q", got)
	}
	m.Add(map[string]string{"k": strings.Repeat("x", 1<<20)})
	if got := m.Text("often used"); got != mask.Hidden {
		t.Errorf("a huge value drives others out: %q", got)
	}
}

func TestEmptyValuesHideNothing(t *testing.T) {
	if got := mask.Text("as it was", map[string]string{"a": "", "": "x"}); got != "as it was" {
		t.Errorf("the text is %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("login with hunter2 failed", "hunter2", "password")
	f.Add("password=\"x", "\n\n\n\n\n", "k")
	f.Fuzz(func(t *testing.T, text, secret, key string) {
		got := mask.Text(text, map[string]string{key: secret})
		if len(secret) >= 4 && !strings.Contains(mask.Hidden, secret) && strings.Contains(strings.ReplaceAll(got, mask.Hidden, "\x00"), secret) &&
			!strings.Contains("true false none null default", strings.ToLower(secret)) {
			t.Errorf("%q is left in %q", secret, got)
		}
	})
}
