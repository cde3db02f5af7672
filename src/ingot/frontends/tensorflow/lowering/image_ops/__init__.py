# SPDX-License-Identifier: Apache-2.0
"""Images: colours, resizing, crops, transforms, and non-maximum suppression of boxes.

* `images`: colour spaces and adjustments; and fake quantisation;
* `crops`: crops of boxes, resized to one size; and their gradients, of the images and of the boxes;
* `drawing`: boxes drawn on images, and windows cut out of images at offsets that are data;
* `pixels`: pixels of images as rows of channels: what crops and projective transforms gather and
  scatter;
* `projective`: projective transforms of images: each pixel of the result is looked up where 8
  numbers say;
* `resizing`: resizing of images: nearest, bilinear, bicubic, by area; and the gradients;
* `open_resizing`: resizing of images along an axis of open size: the program computes which pixels
  it takes;
* `scale_translate`: images resampled by a filter, scaled and moved by run-time numbers;
* `suppression`: non-maximum suppression: boxes are taken by falling score unless they overlap one
  taken before;
* `combined_suppression`: non-maximum suppression of every class of a batch of images, and the best
  boxes of all classes.
"""
