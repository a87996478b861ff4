package store

// Bucket is a named set of values.
type Bucket struct {
	db   *DB
	name string
}

// Bucket returns the bucket of that name; it comes into being with its first value.
func (db *DB) Bucket(name string) Bucket { return Bucket{db, name} }

// Get returns the value of key, nil when there is none. The caller must not change it.
func (b Bucket) Get(key string) ([]byte, error) { return b.db.get(slot{b.name, key}) }

// Put stores the value and returns when it is durable.
func (b Bucket) Put(key string, value []byte) error {
	return b.db.write(map[slot][]byte{{b.name, key}: present(value)}, pace{durable: true})
}

// PutLater stores the value; it becomes durable soon, or as soon as the disk can be written again.
func (b Bucket) PutLater(key string, value []byte) error {
	return b.db.write(map[slot][]byte{{b.name, key}: present(value)}, pace{kept: true})
}

// Delete removes key, durably; a missing key is no error.
func (b Bucket) Delete(key string) error {
	return b.db.write(map[slot][]byte{{b.name, key}: nil}, pace{durable: true})
}

// All returns the whole bucket. The caller must not change the values.
func (b Bucket) All() (map[string][]byte, error) { return b.db.all(b.name, "") }

// present makes an empty value different from nil, which deletes.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
