// Package disklog is a registry's log in a folder on one machine's disk, kept by
// Pebble. What Append has acknowledged is there after a crash of the process or
// of the machine.
//
// # Promises
//
// Append returns after one fsync, whatever the size of the batch. All of a batch
// is there at the next start, or nothing of it. Retention is applied in the same
// step: what it takes away and the marks it leaves are in the same batch.
//
// Reads never wait for the disk's writes. Which messages a page has is decided
// in memory; the newest records ([Options.Recent]) are there too, the others are
// read in one pass. A reader sees one moment of the log from beginning to end.
//
// The log keeps its epoch over restarts. It takes a new one when it is made,
// imported, opened from a backup, and when it finds that it ends before the last
// message that it had acknowledged.
//
// # Memory and open time
//
// Each retained message takes about 130 bytes of memory besides [Options.Recent],
// [Options.Cache] and up to 256 MiB for tables not yet flushed (64 MiB are
// usual); Open reads one small row of each. A million messages open in about a
// second.
//
// # The folder
//
//	format      "pilotgo registry log, format N", and ", unfinished" until the
//	            log is complete. A folder with other things and without it, or of
//	            a newer format, is left alone
//	store/      the rows, in files of Pebble; its file LOCK is locked by the
//	            process that has the folder
//	holder      who that is, for the error that others get
//	head        epoch u64, head u64, CRC-32C u32: the last acknowledged seq, noted
//	            outside the store and not synced. A store that ends before it has
//	            lost acknowledged messages
//	ballast     32 MiB set aside, see below
//	restored    only in a backup: the log takes a new epoch and removes it
//
// The folder is made for its owner alone, as the identity key lies in its store,
// and Open takes a store that others may look into from them.
//
// # Rows
//
// Numbers are big-endian; "short" is up to 255 bytes behind their length in one
// byte; each value begins with the format number, 1, which the table leaves out.
// Rows of a key not in the table are of a newer program.
//
//	key                          value
//	a epoch                      id u64, born u64
//	a head                       seq u64, time u64: of the newest message ever
//	a floor                      seq u64: keys up to it are forgotten
//	a forgotten                  seq u64: stands for marks that are not kept
//	a identity                   seed [32], then for each succession the old key
//	                             [32], the new key [32], the signature [64]
//	e short(table) key           an entry's value
//	f topic                      a fence: K u64, S u64
//	i seq u64                    a message's place: time u64, sender u32, payload
//	                             bytes u32, charge u32, short(slot), recipient
//	                             u32, topic to the end
//	k seq u64                    the idempotency keys of one batch, by its first
//	                             seq; for each: seq u64, time u64, sender u32,
//	                             digest [16], short(key)
//	m seq u64                    a message: epoch u64, digest [16], short(slot),
//	                             short(key), then its Deliver frame without length
//	                             and without key, as package protocol has it
//	t topic                      mark of a topic: seq u64
//	u node u32                   mark of the messages to a node: seq u64
//
// Rows i and m are written once and deleted once (Pebble's SingleDelete relies
// on that). Rows k are removed by range, some 65,536 keys behind the floor.
//
// # The store's budget
//
// Tables in memory of 32 MiB, flushed by one goroutine; one compaction at a time
// by another; obsolete files go at 64 MiB a second. A publish waits for the
// background only when eight tables in memory await their flush. Blocks of 8 KiB,
// lightly compressed, checked by a checksum whenever they are read.
//
// # When the disk is full
//
// Append asks the system for the space that is left. Below [Options.Reserve] it
// refuses with protocol.ErrStorageFull and stores nothing; reads, Purge and
// Expire go on, and appends do once there is room again. The reserve is what
// flushes and compactions work with. If the disk fills faster than that, or a
// quota is met that the system does not tell of, the first write that fails
// removes the ballast and is tried again; from then on appends are refused until
// the ballast can be put back. Systems other than Linux set no ballast aside.
//
// # When the disk fails
//
// If the store cannot write or sync its own log or its list of files, it is not
// known what they hold. The Append at hand returns an error that is both
// protocol.ErrUnknownOutcome and a [FailedError]; its batch may be there at the
// next start, whole. Every later change is refused with a FailedError, with
// nothing stored; reads go on from what is there. The folder stays locked and
// the store's goroutines stay where they stopped until the process ends: restart
// it once the disk is mended.
//
// # Damage
//
// Pebble notes in its log how far it was synced, so a log that is spoilt before
// that is told from one whose last write was cut short by a crash: the first is
// a [DamagedError] at Open, the second is normal, as nothing of it had been
// acknowledged. A log that ends too early is noticed by the file head. Of spoilt
// tables the reads that meet them fail; [Check] reads everything. A damaged log
// is not mended: restore the newest backup, or export what can be read.
package disklog
