// Puts one job's records into the store, within a transaction.
#pragma once

#include "persist/write_behind.h"

namespace seekline {

/// Writes what is missing of `job`: blocks, the partial last block (in place of shorter ones), the snapshot.
/// Every block before is compared token by token first, so that a chain never continues a prefix that only
/// hashes alike. Throws what WriteTxn throws, and Error(kLimit) where the chain has a gap that the job cannot
/// fill.
void write_job(WriteTxn& txn, const ChainModel& model, const StoreJob& job, WriteStats& done);

/// Marks a record as used at `time`, which never goes back.
void mark_used(WriteTxn& txn, const Key& record, std::uint64_t time);
std::uint64_t last_used(const Txn& txn, const Key& record);

/// Makes the model known to `seekline cache ls`.
void describe_model(WriteTxn& txn, const Key& fingerprint, const std::string& description);

}  // namespace seekline
