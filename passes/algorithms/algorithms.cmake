# The algorithms of the passes that know nothing of MLIR; they configure and build without it.
if(NOT TARGET mt_schedule_algorithms)
  add_library(mt_schedule_algorithms STATIC
    ${CMAKE_CURRENT_LIST_DIR}/Hazards.cpp
    ${CMAKE_CURRENT_LIST_DIR}/Lifetimes.cpp
    ${CMAKE_CURRENT_LIST_DIR}/Packer.cpp
    ${CMAKE_CURRENT_LIST_DIR}/Placer.cpp
    ${CMAKE_CURRENT_LIST_DIR}/Skyline.cpp
    ${CMAKE_CURRENT_LIST_DIR}/VerifyContents.cpp
    ${CMAKE_CURRENT_LIST_DIR}/VerifyPacking.cpp)
  target_link_libraries(mt_schedule_algorithms PUBLIC mt_base fmt::fmt)
endif()
