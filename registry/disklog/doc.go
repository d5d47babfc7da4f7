// Package disklog is a registry's log in a folder on one machine's disk, kept by
// Pebble. What Append has acknowledged is there after a crash of the process or
// of the machine.
//
// # Promises
//
// Append returns after one fsync, whatever the size of the batch; batches that are
// on their way together, see [Log.Begin], share fsyncs. All of a batch is there at
// the next start, or nothing of it, and never without those that were begun before
// it. Retention is applied in the same step: what it takes away and the marks it
// leaves are in the same batch.
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
// Each retained message takes about 140 bytes of memory besides [Options.Recent],
// [Options.Cache] and up to 256 MiB for tables not yet flushed (64 MiB are
// usual); Open reads one small row of each. A million messages open in about a
// second. Those that have gone count while their rows remain, some 130,000 of them
// at most.
//
// # The folder
//
//	format      "pilotgo registry log, format N", and ", unfinished" until the
//	            log is complete. A folder with other things and without it, or of
//	            a newer format, is left alone
//	store/      the rows, in files of Pebble; its file LOCK is locked by the
//	            process that has the folder. On Linux its newest log is up to
//	            1 MiB longer than its records, zeros behind them: a sync then
//	            writes no new length, and takes a third less
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
// byte; each value begins with the format number, 1, and 2 in new rows of i, which
// the table leaves out. Rows of a key not in the table are of a newer program.
//
//	key                          value
//	a epoch                      id u64, born u64
//	a head                       seq u64, time u64: of the newest message ever
//	a floor                      seq u64: keys up to it are forgotten
//	a forgotten                  seq u64: stands for marks that are not kept
//	a identity                   seed [32], then for each succession the old key
//	                             [32], the new key [32], the signature [64]
//	d first u64, behind u16      messages of a window that have gone, though their
//	                             rows i and n are there: u16 for each, counted from
//	                             first. Behind is the first of them
//	e short(table) key           an entry's value
//	f topic                      a fence: K u64, S u64
//	i seq u64                    a message's place: time u64, sender u32, payload
//	                             bytes u32, charge u32, short(slot), recipient
//	                             u32, topic to the end
//	k seq u64                    the idempotency keys of one batch, by its first
//	                             seq; for each: seq u64, time u64, sender u32,
//	                             digest [16], short(key)
//	m seq u64                    a message whose row i is of format 1: epoch u64,
//	                             digest [16], short(slot), short(key), then its
//	                             Deliver frame without length and without key, as
//	                             package protocol has it
//	n first u64, group u8,       the same, of a row i of format 2: seq is first and
//	  behind u16                 behind, first a multiple of 4096, group the CRC-32C
//	                             modulo 64 of the topic or of the recipient u32
//	t topic                      mark of a topic: seq u64
//	u node u32                   mark of the messages to a node: seq u64
//
// Rows i, m and n are written once and deleted once (Pebble's SingleDelete relies
// on that). Rows k are removed by range, some 65,536 keys behind the floor.
//
// A message that retention takes is noted in a row d with the others of its change
// and window. When all of a window have gone its rows are removed by three ranges;
// what still has neighbours that live is removed when it has lain for a minute, one
// window with each change, or up to eight with one that brings no messages, of which
// a registry that nobody publishes on makes one a minute; and when all that lies
// there counts more than 64 MiB. To remove two rows of each at once would cost as
// much as to write them. A purge removes them at once, and all the dead of the same
// windows; a full disk all there are.
//
// A block that must be read costs as much as ten messages in it. In log order
// (rows m) one topic of a hundred has a block for each of its messages; in rows n
// it shares a group with one or two others, and a block holds some ten of its
// messages. Who reads all topics finds a page in 64 places of a window, which
// costs about 0.6 µs more for each message, and a message is written for 0.1 to
// 0.3 µs more. A topic with one message of a thousand still takes a block for
// each.
//
// # Formats
//
// Folders of format 1 have only rows m, with rows i of format 1. They open, and
// become of format 2 with that: what is written from then on is in rows n, what
// was there stays where it is until retention takes it, and is removed at once.
//
// # The store's budget
//
// Tables in memory of 32 MiB, flushed by one goroutine; one compaction at a time
// by another; obsolete files go at 64 MiB a second. A publish waits for the
// background only when eight tables in memory await their flush. Blocks of 4 KiB,
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
// known what they hold. Each batch on its way gets an error that is both
// protocol.ErrUnknownOutcome and a [FailedError]; it may be there at the next
// start, whole. Every later change is refused with a FailedError, which is a
// protocol.ErrDraining, with nothing stored; reads go on from what is there. The
// folder stays locked and the store's goroutines stay where they stopped until the
// process ends: restart it once the disk is mended.
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
