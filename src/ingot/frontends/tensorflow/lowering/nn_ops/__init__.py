# SPDX-License-Identifier: Apache-2.0
"""Layers of neural networks: convolutions, pools, norms, activations, recurrent cells, CTC.

* `activation`: activations and their gradients, softmax and the cross-entropies;
* `convolution`: convolutions and their gradients, each one HLO `convolution`
  (`building.convolution`);
* `windows`: what convolutions and pools share: data formats, strides and padding of an op's node;
* `pooling`: pools and their gradients: windows folded, and gradients put back into the windows;
* `fractional_pooling`: pools whose windows are of two sizes, one more than the other, in
  TensorFlow's own random order;
* `normalization`: batch normalisation and its gradients;
* `local_norm`: local response normalisation over neighbouring channels, and its gradient;
* `patches`: patches of images and volumes: windows as they are, or folded with a filter by max and
  plus;
* `recurrent`: recurrent cells that are one op: LSTM with peepholes, one step or a loop over time,
  and GRU;
* `ctc`: greedy decoding for connectionist temporal classification: labels from scores by time;
* `ctc_loss`: the loss of connectionist temporal classification, and its gradient by the scores.
"""
