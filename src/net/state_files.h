#pragma once

// What a server and a client keep to know each other's processes again, as text.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/job.h"

namespace tacit {

// A server's file `answered`: lines "ROUND NAME FOLDER" of clients. The last round that a client has sent an
// answer to counts, and the folder of its last line. Before there are any: "0 NAME -".
std::string AnsweredLine(std::uint32_t round, const std::string& client, const std::string& folder);
// Takes what is new, by client; a last line that was cut is none. False: it is not a list of the clients of
// this job, and nothing is taken.
bool TakeAnswered(std::string_view text, const Job&, std::vector<std::uint32_t>& round,
                  std::vector<std::string>& folder);

// A client's file `name` of a job's folder, "NAME STARTS".
struct Place {  // where a client answers from
  std::string name;  // of the folder
  std::uint32_t starts = 0;  // how many processes have begun there, with this one
};
std::string PlaceLine(const Place&);
std::optional<Place> ParsePlace(std::string_view text);  // nothing: it is none

}  // namespace tacit
