#include "runtime/tokenizer/Vocabulary.h"

namespace mt::tokenizer {

Status Vocabulary::add(std::string_view token, uint64_t id) {
  if (id >= kMostIds)
    return fail("the id {} of \"{}\" is too large: ids below {} are supported", id, token, kMostIds);
  if (find(token))
    return Status();
  if (id < byId.size() && byId[id])
    return fail("\"{}\" and \"{}\" both have the id {}", *byId[id], token, id);
  if (2 * (entries.size() + 1) > slots.size())
    grow();
  entries.push_back({std::string(token), hashOf(token), static_cast<uint32_t>(id)});
  size_t slot = entries.back().hash % slots.size();
  while (slots[slot] != 0)
    slot = (slot + 1) % slots.size();
  slots[slot] = static_cast<uint32_t>(entries.size());
  if (id >= byId.size())
    byId.resize(id + 1, nullptr);
  byId[id] = &entries.back().token;
  return Status();
}

void Vocabulary::grow() {
  slots.assign(std::max<size_t>(1024, 4 * slots.size()), 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t slot = entries[i].hash % slots.size();
    while (slots[slot] != 0)
      slot = (slot + 1) % slots.size();
    slots[slot] = static_cast<uint32_t>(i + 1);
  }
}

std::optional<uint32_t> Vocabulary::find(std::string_view token) const {
  if (slots.empty())
    return std::nullopt;
  uint64_t hash = hashOf(token);
  for (size_t slot = hash % slots.size(); slots[slot] != 0; slot = (slot + 1) % slots.size())
    if (const Entry &entry = entries[slots[slot] - 1]; entry.hash == hash && entry.token == token)
      return entry.id;
  return std::nullopt;
}

} // namespace mt::tokenizer
