# CUDA is built where nvcc is found (on PATH or in /usr/local/cuda); -DMT_CUDA=OFF leaves it out, ON insists. cuBLASLt
# and cuDNN are opened at run time: only headers are needed here, and the runtime library is linked statically.
# tools/setup.sh fetches the headers of cuDNN's graphs, pinned and hash-checked.
set(MT_CUDA AUTO CACHE STRING "build the CUDA device: AUTO (where nvcc is), ON, OFF")
# The lowest of each generation, whose code the others of it run too (86 and 89 that of 80, 103 that of 100, 121 that of 120).
set(MT_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "GPU architectures to build for, lowest first")

set(MT_HAS_CUDA OFF)
if(NOT MT_CUDA STREQUAL "OFF")
  set(missing "")
  find_program(MT_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT MT_NVCC)
    set(missing "nvcc is neither on PATH nor in /usr/local/cuda/bin")
  else()
    get_filename_component(toolkit ${MT_NVCC} REALPATH)
    get_filename_component(toolkit ${toolkit} DIRECTORY)
    find_path(MT_CUDNN_INCLUDE cudnn.h HINTS ${toolkit}/../include /usr/local/cuda/include)
    if(NOT MT_CUDNN_INCLUDE)
      set(missing "${MT_NVCC} is there and cudnn.h is not: install cuDNN 9's headers (Debian: libcudnn9-headers-cuda-13 of \
NVIDIA's repository), or name their folder by -DMT_CUDNN_INCLUDE=")
    endif()
  endif()
  set(MT_CUDNN_FRONTEND ${PROJECT_SOURCE_DIR}/third_party/cudnn_frontend/include)
  if(NOT missing AND NOT EXISTS ${MT_CUDNN_FRONTEND}/cudnn_frontend.h)
    message(FATAL_ERROR "${MT_CUDNN_FRONTEND} is missing; run tools/setup.sh, which fetches it, or configure with "
                        "-DMT_CUDA=OFF")
  endif()
  if(NOT missing)
    set(MT_HAS_CUDA ON)
  elseif(MT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MT_CUDA is ON: ${missing}")
  elseif(MT_NVCC)
    message(WARNING "no CUDA device: ${missing}")
  endif()
endif()
message(STATUS "CUDA device: ${MT_HAS_CUDA}")

if(MT_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${MT_NVCC})
  # Device code is compiled once, for the lowest architecture, and assembled for each: no kernel of ours uses what only
  # some have, and assembling for one takes as long as compiling. Others, 110 say, and newer ones assemble it when it is loaded.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  list(GET MT_CUDA_ARCHITECTURES 0 lowest)
  list(TRANSFORM MT_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE codes)
  list(JOIN codes "," codes)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  string(APPEND CMAKE_CUDA_FLAGS " --generate-code=arch=compute_${lowest},code=[compute_${lowest},${codes}]")
  find_package(CUDAToolkit REQUIRED)
endif()
