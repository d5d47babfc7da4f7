package disklog

// WithMemTable makes the store work in the background as often as in a log that
// is much larger.
func WithMemTable(o Options, size uint64) Options {
	o.memTable = size
	return o
}

// Wait waits until all is done that Close would end.
func (l *Log) Wait() { l.using.Wait() }
